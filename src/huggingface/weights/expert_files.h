// Forms of experts in files. A window has tensors of its own for each expert. A file has the same ("single"),
// or one tensor for a matrix of all experts of a layer ("joined", tidepool/experts.h): the experts' tensors,
// one after the other.
#pragma once

#include <span>
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
// The same of the file with the trained weights. With LoRA it is joined if experts' adapters are
// (AdapterForm::joined), whatever the model's files have.
ExpertForm form_of_files(const ModelGraph&);

// A tensor of a file, and the tensors of windows that it holds, side by side in this order.
struct FileTensor {
  struct Part {
    u32 window = 0, tensor = 0;
  };
  std::string name;
  std::vector<u64> shape;
  std::vector<Part> parts;
  // lora_B of all experts of a layer: element i of part e is element i parts.size() + e of the file's.
  bool interleaved = false;
};
// RETURNS: the tensors of files with all windows of the model. Tensors of different windows are in one only
// if they are experts of one layer.
std::vector<FileTensor> file_tensors(const ModelGraph&, ExpertForm);

// Copy one part of an interleaved tensor out of the file's bytes, or into them.
void take_part(const FileTensor&, u64 part, u64 element_bytes, std::span<const std::byte> file,
               std::span<std::byte> out);
void put_part(const FileTensor&, u64 part, u64 element_bytes, std::span<const std::byte> in,
              std::span<std::byte> file);

// InterleavedParts reads parts of interleaved tensors. It holds the two tensors that were read last, which is
// enough for the two that a layer has at most.
class InterleavedParts {
 public:
  // RETURNS: the part's bytes, in the file's type.
  Result<std::vector<std::byte>> read(const SafetensorsModel::Location&, const FileTensor&, u64 part);

 private:
  struct Held {
    const StoredTensor* tensor = nullptr;
    std::vector<std::byte> bytes;
  };
  Held held_[2];
  u32 next_ = 0;  // is replaced next
};

// RETURNS: the form of the experts in files with these weights; without experts, form_of_files().
// Error: bad_input, naming file and tensor, if there are tensors of both forms, or of more experts than the
// model has.
Result<ExpertForm> find_expert_form(const SafetensorsModel&, const ModelConfig&);

// RETURNS: Experts::joined_files of a directory with weights; false if it has none, or none that can be read,
// and for families with one form.
bool has_joined_experts(const std::string& directory, const ModelConfig&);

}  // namespace tidepool
