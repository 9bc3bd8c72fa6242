// Reads and writes adapter_config.json of an adapter's directory, in PEFT's format.
#pragma once

#include <string>

#include "base/result.h"
#include "huggingface/adapters/adapter_targets.h"
#include "huggingface/directory/hf_config.h"
#include "tidepool/lora.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// REQUIRES: graph.lora.on().
std::string adapter_config_text(const ModelGraph& graph);

// A number for modules whose path matches a key, as PEFT matches the keys of its patterns.
struct PathValue {
  std::string key;
  double value = 0;
};

// The settings of an adapter that decide what is added to the model, and to which modules.
struct AdapterConfig {
  u32 r = 0;
  double alpha = 0;
  bool rslora = false;
  double scale = 0;             // alpha / r, or alpha / sqrt(r) with rslora
  double dropout = 0;           // used in training only
  bool fan_in_fan_out = false;  // the model's matrices are [in, out]; ignored for a known family
  bool saves_score = false;     // a score head is among its tensors
  AdapterTargets targets;
  // Rank and alpha for experts' parameters, by rank_pattern and alpha_pattern; otherwise r and alpha.
  u32 gate_up_r = 0, down_r = 0;
  double gate_up_alpha = 0, down_alpha = 0;
  // rank_pattern and alpha_pattern for linear layers, in their order: the first key that matches a path
  // counts.
  std::vector<PathValue> ranks, alphas;
  std::string base;  // directory of the base model, as the adapter's author wrote it; empty: unknown

  // Name of a linear layer, such as "model.layers.0.self_attn.q_proj".
  u32 rank_of(std::string_view module) const;
  double alpha_of(std::string_view module) const;
  double scale_of(std::string_view module) const;
  // True if names in target_modules alone say which modules have adapters, all with r and alpha.
  bool only_named() const;
  // True if not all layers may have the same adapters, with the same rank and alpha.
  bool varies() const;
};

// Reads adapter_config.json of `directory`.
// Error: `error_kind`, naming the file; also for adapters and settings that are not plain LoRA.
Result<AdapterConfig> read_adapter_config(const std::string& directory, ErrorKind error_kind);

// Section `lora` of a run that starts from this adapter: all keys but `base`. `modules` are the names
// in target_modules; of whole paths, the last parts. If target_modules is a pattern, `modules` is empty,
// which means all.
LoraConfig lora_of_adapter(const AdapterConfig&, const std::string& directory);
// The same of the adapter in `source`; if it varies, with LoraConfig::modules, from the names and shapes of
// its tensors. Error: bad_input, naming file and tensor.
Result<LoraConfig> lora_of_adapter_files(const AdapterConfig&, const std::string& source,
                                         const std::string& directory);

}  // namespace tidepool
