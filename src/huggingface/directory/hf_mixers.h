// Reads and writes the kinds of layers of hybrids. Qwen's: layer_types in config.json, or
// full_attention_interval. Nemotron-H's and Granite 4's: layers_block_type, layer_types or
// hybrid_override_pattern; and the keys of Mamba-2 that are no plain values.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// True for the keys that read_mixers() reads.
bool is_mixer_key(Family, std::string_view key);
// Takes the lists, which transformers prefers to interval and pattern.
// RETURNS: a fault if, in Qwen's hybrids, the layers with attention are not at a fixed interval.
std::optional<ModelFault> read_mixers(const boost::json::object& file, ModelConfig&);
void write_mixers(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
