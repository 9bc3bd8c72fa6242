// The MLP of a layer with experts, as the layer's first block has it: the router, and the shared experts, if
// there are any. Groups of experts are blocks of their own, which read and add to streams (experts_block.h).
#pragma once

#include "model/layer_parts.h"

namespace tidepool::experts {

extern const Mlp row;

}  // namespace tidepool::experts
