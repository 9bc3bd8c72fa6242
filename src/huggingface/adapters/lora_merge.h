// What an adapter adds to a model's weights, tensor by tensor: W + scale B A, as PEFT's merge_and_unload().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "huggingface/adapters/adapter_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/tensor_change.h"

namespace tidepool {

// Holds the factors of one tensor at a time: r (rows + columns) floats. One thread.
class AdapterMerge final : public TensorChange {
 public:
  // Of an adapter's directory: of PEFT, or a checkpoint of a run with LoRA; `base`: the directory of the
  // model that it is merged into. ErrorKind::bad_input, naming file and tensor; also for tensors of modules
  // that the config does not name: PEFT leaves them out, and merges something else.
  static Result<std::unique_ptr<AdapterMerge>> open(const std::string& directory, const std::string& base);

  // Whether the tensor of the model, "model.layers.0.mlp.up_proj.weight" or "h.0.attn.c_attn.weight", gets
  // anything.
  bool changes(std::string_view tensor) const override { return !stem_of(tensor).empty(); }

  // ErrorKind::bad_input where target_modules names the tensor's module and the adapter holds nothing for it.
  Result<void> check(std::string_view tensor) const override;

  // Adds to elements [begin, begin + values.size()) of a tensor for which changes() holds: whole rows, or
  // parts of one. Error: ErrorKind::bad_input where the adapter does not fit the shape.
  Result<void> apply(std::string_view tensor, std::span<const u64> shape, u64 begin,
                     std::span<float> values) override;

  // After the last tensor: ErrorKind::bad_input if the model lacked one that the adapter is for.
  Result<void> finish() const override;

  AdapterMerge(const AdapterMerge&) = delete;

 private:
  AdapterMerge() = default;
  std::string stem_of(
      std::string_view tensor) const;  // "base_model.model. ...", without ".lora_A.weight"; empty: none
  Error wrong_config(const std::string& reason) const;
  Result<void> check_target(const StoredTensor&, std::string_view stem) const;
  bool surely_of_all_linear(std::string_view module) const;
  bool fan_in_fan_out(std::string_view tensor) const;  // [in, out]
  Result<void> load(std::string_view tensor, std::span<const u64> shape);
  Result<std::vector<float>> read(const StoredTensor&) const;

  std::string config_path_;
  AdapterConfig config_;
  std::optional<Family> family_;  // of the base; none: one that Tidepool does not know
  std::unique_ptr<SafetensorsFile> file_;
  std::set<std::string, std::less<>> stems_, seen_;

  std::string loaded_;  // tensor
  u64 rows_ = 0, columns_ = 0;
  std::vector<float> left_;   // [rows, r], times scale
  std::vector<float> right_;  // [r, columns]
  std::vector<float> sum_;    // of a row
};

}  // namespace tidepool
