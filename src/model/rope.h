// inverse_frequencies computes the angles of a rotary embedding.
#pragma once

#include "kernels/rotary/rotary.h"
#include "tidepool/model_config.h"

namespace tidepool {

// RETURNS: radians per position for each pair of elements of a head in a layer, rounded where transformers
// rounds (modeling_rope_utils.py). In some families layers with a sliding window have their own angles, which
// are not scaled. Scaling each frequency differently is from Peng et al., arXiv:2309.00071. With YaRN cosine
// and sine are also multiplied by Rope::rotary_factor().
RotaryFrequencies inverse_frequencies(const ModelConfig&, u32 layer);

}  // namespace tidepool
