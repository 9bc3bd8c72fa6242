// Reads and writes the sliding window in config.json, as transformers does.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string_view>

#include "tidepool/model_config.h"

namespace tidepool {

// True if the family has windows and `key` is one of their keys: sliding_window, use_sliding_window,
// max_window_layers, layer_types, sliding_window_pattern.
bool is_window_key(Family, std::string_view key);

// Sets sliding_window, use_sliding_window, max_window_layers and sliding_window_pattern. Missing keys have
// transformers' defaults: Mistral's window is 4096; Qwen's counts only with use_sliding_window, and for
// layers from max_window_layers on. REQUIRES: config.family and config.layers are set.
std::optional<ModelFault> read_window(const boost::json::object& file, ModelConfig& config);

// Writes the window into the keys of config.json. Window keys that `out` already has are overwritten or
// erased.
void write_window(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
