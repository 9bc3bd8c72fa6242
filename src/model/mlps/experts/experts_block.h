// The block of a group of experts: forward adds its experts' outputs to the layer's sum, and backward
// computes the gradients of its experts, of their input and of their weights in the sum.
#pragma once

#include "model/blocks.h"

namespace tidepool {

void measure_experts(Block&, const ModelGraph&);
void experts_forward(const BlockContext&, const BlockForward&);
void experts_backward(const BlockContext&, const BlockBackward&);

}  // namespace tidepool
