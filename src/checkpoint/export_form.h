// ExportForm lists what an export writes before any type is converted: tensors under their names in the
// output, config.json, and the files beside it. Its form is that of a model directory: the source itself, or
// the directory that a trained text model began from, whose other tensors are then carried.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "huggingface/directory/carried.h"
#include "huggingface/weights/safetensors.h"
#include "tidepool/model_config.h"

namespace tidepool {

struct FormTensor {
  SafetensorsModel::Location from;  // the values, under the model's own name
  std::string name;                 // in the output
  Dtype dtype{};                    // in the output, unless another is asked for
  bool beside = false;              // of no text model: neither converted nor changed
  bool dropped = false;             // not written
  bool carried = false;             // of the base, not of the source
};

class ExportForm {
 public:
  // `base`: the directory whose form the output gets; empty: the source's own. `text_only`: leaves out
  // tensors beside the text model, and writes it under its own names. Error: usage if `base` holds another
  // model; bad_input, naming the file and its fault.
  static Result<ExportForm> open(const std::string& source, const std::string& base, bool text_only);

  const SafetensorsModel& model() const { return *form_; }  // the directory whose form the output has
  std::span<const FormTensor> tensors() const { return tensors_; }
  const std::string& config() const { return config_; }
  const std::vector<CarriedFile>& files() const { return files_; }

 private:
  Result<void> list_own(const std::string& source, bool text_only);
  Result<void> list_with_base(const std::string& source, const std::string& base);
  Result<FormTensor> tensor_of_base(const SafetensorsModel::Location& there, const ModelConfig&,
                                    const std::string& base) const;
  Result<void> merge_configs(const std::string& base, const ModelConfig& before, const ModelConfig& now,
                             const std::string& source);
  Result<void> add_files_of_base(const std::string& base);

  std::unique_ptr<SafetensorsModel> form_;
  std::unique_ptr<SafetensorsModel> trained_;  // the source, if the form is another directory's
  std::vector<FormTensor> tensors_;
  std::string config_;
  std::vector<CarriedFile> files_;
};

}  // namespace tidepool
