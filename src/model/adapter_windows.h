// add_adapters gives a model's layers their LoRA windows.
#pragma once

#include <vector>

#include "base/result.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Numbers of the windows with adapters; `none` for blocks without any.
struct AdapterWindows {
  std::vector<u32> layers;               // of each layer's first block
  std::vector<std::vector<u32>> groups;  // of each layer's groups of experts
  std::vector<u32> ends;                 // of each layer's end
};

// Freezes every window of the model, and adds trainable windows of adapters: one per layer for its first
// block, such as "layers.3.lora", then one per group of experts, "layers.3.experts.0-7.lora", and one for the
// layer's end, "layers.3.end.lora".
// RETURNS: an error of ErrorKind::usage that names the config key.
Result<AdapterWindows> add_adapters(ModelGraph&);

}  // namespace tidepool
