// The angles of a rotary embedding.
#pragma once

#include "kernels/rotary/rotary.h"
#include "tidepool/model_config.h"

namespace tidepool {

// Radians per position of each pair of a head in a layer, rounded where transformers rounds
// (modeling_rope_utils.py). Layers that slide have angles of their own, not scaled.
// Peng et al., arXiv:2309.00071, is where scaling each frequency in its own way comes from.
RotaryFrequencies inverse_frequencies(const ModelConfig&, u32 layer);

}  // namespace tidepool
