// inverse_frequencies computes the angles of a rotary embedding.
#pragma once

#include <string>

#include "kernels/rotary/rotary.h"
#include "tidepool/model_config.h"

namespace tidepool {

// RETURNS: radians per position for each pair of elements of a head in a layer, rounded where transformers
// rounds (modeling_rope_utils.py). In some families layers with a sliding window have their own angles, which
// are not scaled. Scaling each frequency differently is from Peng et al., arXiv:2309.00071. With YaRN cosine
// and sine are also multiplied by Rope::rotary_factor(), with longrope (Ding et al., arXiv:2402.13753) too.
// `tokens`: of a sequence, by which longrope and dynamic angles are chosen. transformers takes the longest
// sequence of each batch; here all batches of a run have the same angles.
RotaryFrequencies inverse_frequencies(const ModelConfig&, u32 layer, u32 tokens);

// RETURNS: what the length of a run's sequences chooses, for people; empty: nothing.
std::string angles_by_length(const ModelConfig&, u32 tokens);

}  // namespace tidepool
