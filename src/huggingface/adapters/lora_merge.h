// AdapterMerge adds a LoRA adapter to a model's weights, tensor by tensor: W + scale B A, as PEFT's
// merge_and_unload().
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
#include "huggingface/adapters/expert_merge.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/tensor_change.h"

namespace tidepool {

// Holds the factors of one matrix at a time: r (rows + columns) floats; and the B of up to two layers'
// experts, if one tensor holds those of all experts. THREADS: one.
class AdapterMerge final : public TensorChange {
 public:
  // Opens an adapter's directory: one written by PEFT, or a checkpoint of a LoRA run. `base` is the directory
  // of the model to merge into.
  // Error: bad_input, naming file and tensor; also if the adapter has tensors of modules that its config does
  // not name, because PEFT ignores those and would merge something else.
  static Result<std::unique_ptr<AdapterMerge>> open(const std::string& directory, const std::string& base);

  // True if the adapter changes this tensor of the model, such as "model.layers.0.mlp.up_proj.weight" or
  // "h.0.attn.c_attn.weight".
  bool changes(std::string_view tensor) const override;

  // Error: bad_input if target_modules names the tensor's module but the adapter has no weights for it.
  Result<void> check(std::string_view tensor) const override;

  // Adds the update to elements [begin, begin + values.size()) of a tensor: whole rows, or parts of one row.
  // REQUIRES: changes(tensor).
  // Error: bad_input if the adapter does not fit the shape.
  Result<void> apply(std::string_view tensor, std::span<const u64> shape, u64 begin,
                     std::span<float> values) override;

  const NewScore* score() const override { return score_ ? &*score_ : nullptr; }
  // Names the labels of a classifier's adapter; too few or too many are ignored.
  void name_labels(std::vector<std::string> names);

  // To be called after the last tensor.
  // Error: bad_input if the model lacked a tensor that the adapter changes.
  Result<void> finish() const override;

  AdapterMerge(const AdapterMerge&) = delete;

 private:
  AdapterMerge() = default;
  // RETURNS: the parts of the tensor to which adapters may be added; one, if it is not of experts.
  std::vector<MergeBlock> blocks_of(std::string_view tensor) const;
  // RETURNS: "base_model.model. ...", without ".lora_A.weight"; empty: not in the adapter.
  std::string stem_of(std::string_view tensor) const;
  bool has(const MergeBlock& block) const { return stems_.contains(block.stem); }
  Error wrong_config(const std::string& reason) const;
  Error lacks(std::string_view module) const;
  Result<void> check_tensor(const StoredTensor&);
  Result<void> take_score(const StoredTensor&);
  Result<void> check_expert_shape(const StoredTensor&, const ExpertStem&, bool is_a) const;
  Result<void> check_target(const StoredTensor&, std::string_view stem) const;
  bool surely_of_all_linear(std::string_view module) const;
  bool fan_in_fan_out(std::string_view tensor) const;  // true: stored [in, out]
  Result<void> load_tensor(std::string_view tensor, std::span<const u64> shape);
  Result<void> load_block(const MergeBlock&);
  Result<std::vector<float>> rows_of_b(const StoredTensor&, const MergeBlock&, u64 rows);
  void add_row(const MergeBlock&, u64 row, u64 column, std::span<float> values);

  std::string config_path_;
  AdapterConfig config_;
  std::optional<Family> family_;  // of the base model; none: not a family of Tidepool
  std::unique_ptr<SafetensorsFile> file_;
  std::set<std::string, std::less<>> stems_, seen_;
  std::optional<StoredTensor> score_tensor_, score_bias_;
  std::optional<NewScore> score_;

  std::optional<ExpertMerge> experts_;  // if the base model has experts
  InterleavedParts interleaved_;

  std::string loaded_;  // name of the tensor that rows_, columns_ and blocks_ are of
  u64 rows_ = 0, columns_ = 0;
  std::vector<MergeBlock> blocks_;
  u64 block_ = 0;             // the one whose factors are loaded; blocks_.size(): none
  std::vector<float> left_;   // of the block: [rows, r], times scale
  std::vector<float> right_;  // [r, columns]
  std::vector<float> sum_;    // one row of the product
};

}  // namespace tidepool
