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

// Rewrites rotary_dim, the number of columns of a head that are rotated, into partial_rotary_factor, which
// counts if the file has both.
std::optional<ModelFault> rename_rotary_width(Family, boost::json::object& file);

// Takes no_rope_layers, a list that transformers prefers to no_rope_layer_interval, in families that have it.
// RETURNS: a fault if its layers without rotation are not at a fixed interval.
std::optional<ModelFault> read_unrotated(const boost::json::object& file, ModelConfig&);

// RETURNS: a fault if rope_type and type, its older name, differ: transformers reads rope_type, earlier
// versions read type, so each would make another model. `key`: of the map.
std::optional<ModelFault> check_one_type(std::string_view key, const boost::json::object& map);
// RETURNS: a fault if the map of a scaling is incomplete: to guess the rest would make another model.
std::optional<ModelFault> check_scaling(std::string_view key, const boost::json::object& map, RopeType);
// Takes the lengths of longrope that Phi's files have beside the map: the original length, and for a missing
// factor the ratio of the lengths. RETURNS: a fault if an original length beside the map differs from the one
// in it, because transformers prefers it.
std::optional<ModelFault> take_lengths(const boost::json::object& file, ModelConfig&);

// Writes both spellings: transformers 5 reads rope_parameters; 4 reads rope_theta and rope_scaling.
void write_rope(const ModelConfig&, boost::json::object& out);

}  // namespace tidepool
