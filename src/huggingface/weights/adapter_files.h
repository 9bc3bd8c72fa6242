// File names in an adapter's directory, as in PEFT: adapter_model.safetensors and adapter_config.json.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

inline constexpr const char* adapter_weights_file = "adapter_model.safetensors";

// File of a checkpoint that holds the trained weights of this graph.
inline const char* weights_file_of(const ModelGraph& graph) {
  return graph.lora.on() ? adapter_weights_file : "model.safetensors";
}

}  // namespace tidepool
