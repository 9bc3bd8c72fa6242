// Forms of experts in files. A window has tensors of its own for each expert. A file has the same ("single"),
// or one tensor for a matrix of all experts of a layer ("joined", tidepool/experts.h): the experts' tensors,
// one after the other.
#pragma once

#include <string>
#include <vector>

#include "huggingface/weights/safetensors.h"
#include "tidepool/model_graph.h"

namespace tidepool {

enum class ExpertForm : u8 {
  single,  // as in windows
  joined,
};

// Form in which weights are written: the one in which they were read. gpt-oss has only joined files.
ExpertForm form_of_files(const ModelConfig&);

// A tensor of a file, and the tensors of windows that it holds, side by side in this order.
struct FileTensor {
  struct Part {
    u32 window = 0, tensor = 0;
  };
  std::string name;
  std::vector<u64> shape;
  std::vector<Part> parts;
};
// RETURNS: the tensors of files with all windows of the model. Tensors of different windows are in one only
// if they are experts of one layer.
std::vector<FileTensor> file_tensors(const ModelGraph&, ExpertForm);

// RETURNS: the form of the experts in files with these weights; without experts, form_of_files().
// Error: bad_input, naming file and tensor, if there are tensors of both forms, or of more experts than the
// model has.
Result<ExpertForm> find_expert_form(const SafetensorsModel&, const ModelConfig&);

// RETURNS: Experts::joined_files of a directory with weights; false if it has none, or none that can be read,
// and for families with one form.
bool has_joined_experts(const std::string& directory, const ModelConfig&);

}  // namespace tidepool
