// Reads and writes which layers of Qwen's hybrids have attention: layer_types in config.json, or
// full_attention_interval.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// True for the list, in families that have it.
bool is_mixer_key(Family, std::string_view key);
// Takes the list, which transformers prefers to the interval.
// RETURNS: a fault if its layers with attention are not at a fixed interval.
std::optional<ModelFault> read_mixers(const boost::json::object& file, ModelConfig&);
void write_mixers(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
