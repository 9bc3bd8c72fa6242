// An adapter's directory as PEFT has it: adapter_model.safetensors and adapter_config.json.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

inline constexpr const char* adapter_weights_file = "adapter_model.safetensors";

// Where checkpoints of this graph have the weights that are trained.
inline const char* weights_file_of(const ModelGraph& graph) {
  return graph.lora.on() ? adapter_weights_file : "model.safetensors";
}

}  // namespace tidepool
