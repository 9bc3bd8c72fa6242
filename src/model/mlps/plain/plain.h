// The MLP of two products with an activation between them: GELU, or relu^2. The activation is the epilogue of
// the first product, and its gradient the epilogue of the second product's input gradient. The CPU fuses
// epilogues into products; GPUs compute them in a kernel of their own (docs/decisions/0029).
#pragma once

#include "model/layer_parts.h"

namespace tidepool::plain {

// Row of MlpKind::gelu and of MlpKind::squared_relu.
extern const Mlp row;

// For an MLP that is `inner` wide, such as that beside experts without a gate.
void add_tensors(const ModelConfig&, const MlpNames&, u32 inner, bool biases, LayerTensors&);
// Forward stores values only to keep them.
constexpr MlpWidths widths_of(u32 inner) { return {.values = inner, .inner = inner}; }

}  // namespace tidepool::plain
