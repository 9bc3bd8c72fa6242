// Reads per_layer_config, by which transformers 5 says which heads each layer of Gemma 4 has. Earlier files
// have global_head_dim and num_global_key_value_heads instead, which are plain keys.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// True for the key that read_layer_sizes() reads.
bool is_layer_size_key(Family, std::string_view key);
// RETURNS: a fault if layers of one kind differ.
// REQUIRES: the plain keys and the layers' windows were read.
std::optional<ModelFault> read_layer_sizes(const boost::json::object& file, ModelConfig&);

}  // namespace tidepool
