// The end of a layer whose experts are a branch beside a dense MLP, as an MLP: the sum of both branches,
// which the layer's other blocks have made, the experts' with a norm of its own. The layer adds that sum to
// the residual stream as it adds any MLP's output.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::branches {

extern const Mlp row;

}  // namespace tidepool::branches
