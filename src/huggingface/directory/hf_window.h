// Sliding windows in config.json, as transformers reads them.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string_view>

#include "tidepool/model_config.h"

namespace tidepool {

// True where the family has windows and `key` is about them: sliding_window, use_sliding_window,
// max_window_layers, layer_types.
bool is_window_key(Family, std::string_view key);

// Fills sliding_window and use_sliding_window. Keys that are left out are as transformers has them: Mistral's
// window is 4096, Qwen's counts only with use_sliding_window, and for the layers from max_window_layers on.
// REQUIRES: config.family and config.layers are read.
std::optional<ModelFault> read_window(const boost::json::object& file, ModelConfig& config);

// The window in the keys of config.json. `out` may hold more of them, which then say the same window for
// other reasons and are overwritten or erased.
void write_window(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
