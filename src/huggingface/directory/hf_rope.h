// Angles of the rotary embedding in config.json, in the spellings of transformers 4 and 5.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// Families whose layers differ have a map in rope_parameters for each kind of layer. Rewrites both maps into
// the keys of transformers 4: rope_parameters becomes the map of layers that see all tokens, and
// rope_local_base_freq the base of the others. Other families and the keys of transformers 4 are left as they
// are.
// RETURNS: a fault if transformers would read the file in another way.
std::optional<ModelFault> merge_rope_maps(Family, boost::json::object& file);

// Writes both spellings: transformers 5 reads rope_parameters; 4 reads rope_theta and rope_scaling.
void write_rope(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
