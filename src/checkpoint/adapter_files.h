// An adapter's directory as PEFT has it: adapter_model.safetensors and adapter_config.json.
#pragma once

#include <string>

#include "checkpoint/adapter_targets.h"
#include "config/hf_config.h"
#include "tidepool/model_graph.h"
#include "tidepool/result.h"

namespace tidepool {

inline constexpr const char* adapter_weights_file = "adapter_model.safetensors";

// Where checkpoints of this graph have the weights that are trained.
inline const char* weights_file_of(const ModelGraph& graph) {
  return graph.lora.on() ? adapter_weights_file : "model.safetensors";
}

// REQUIRES: graph.lora.on().
std::string adapter_config_text(const ModelGraph& graph);

// What of it says what is added to the model, and where.
struct AdapterConfig {
  u32 r = 0;
  double alpha = 0;
  double scale = 0;             // alpha / r, or alpha / sqrt(r) with use_rslora
  bool fan_in_fan_out = false;  // the model's matrices are [in, out]; a known family tells better
  AdapterTargets targets;
  std::string base;  // directory of the model that it is for, as its maker wrote it; empty: not said
};

// Of `directory`. Errors are `error_kind` and name the file; also for kinds of adapters and settings that are
// not plain LoRA.
Result<AdapterConfig> read_adapter_config(const std::string& directory, ErrorKind error_kind);

}  // namespace tidepool
