// Latent attention: q, k and v are made from latents with norms of their own, and the last columns of heads
// of q and k are rotated.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::latent {

extern const Mixer row;

}  // namespace tidepool::latent
