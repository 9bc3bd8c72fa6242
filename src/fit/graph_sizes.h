// GraphSizes are the sizes of a model's graph that bound the memory of a device and change no bit of a
// result.
#pragma once

#include <optional>
#include <vector>

#include "config/config.h"
#include "tidepool/model_graph.h"
#include "tidepool/update_rule.h"

namespace tidepool {

struct GraphSizes {
  u32 experts_per_group = 0;  // 0: no layer has experts
  u32 piece_tiles = 0;        // tiles of an op; 0: all of a micro-batch
};

// RETURNS: the sizes that the config names; for the others the largest with which a group of experts streams
// in a quarter of the device budget, and six pieces of activations take another quarter.
GraphSizes usual_sizes(const Config&, const std::vector<UpdateRule>&);
// RETURNS: the sizes of a graph of this config, with that one halved which takes more of the device. None:
// the config names them, or they are 1.
std::optional<GraphSizes> smaller_sizes(const Config&, const ModelGraph&);

// Tokens of a tile of a sequence.
u32 tile_tokens(const Config&);
// Precision of activations: on GPUs that of their matrix units.
Precision activations_of(const Config&);

}  // namespace tidepool
