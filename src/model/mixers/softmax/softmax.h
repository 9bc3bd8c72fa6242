// Softmax attention: q, k and v are products of the layer's normalised input. A head of k and v may serve
// several heads of q; q and k may have norms and rotary positions.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::softmax {

extern const Mixer row;

}  // namespace tidepool::softmax
