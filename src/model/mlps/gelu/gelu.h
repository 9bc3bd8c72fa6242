// The MLP of two products with GELU between them. GELU is the epilogue of the first product, and its gradient
// the epilogue of the second product's input gradient. The CPU fuses epilogues into products; GPUs compute
// them in a kernel of their own (docs/decisions/0029).
#pragma once

#include "model/layer_parts.h"

namespace tidepool::gelu {

extern const Mlp row;

}  // namespace tidepool::gelu
