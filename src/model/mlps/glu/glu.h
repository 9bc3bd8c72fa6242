// The gated MLP: gate and up in one product, then down. It is the MLP of dense layers, and of the experts
// that every token uses.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::glu {

extern const Mlp row;

// A gate for each row: its logistic multiplies the MLP's inner values, and so its output.
struct RowGate {
  ConstValues logits;   // [R]
  Values dlogits = {};  // [R]; backward only
};
void forward(const Layer&, const MlpForward&, const RowGate&);
// The frame's `narrow` is scratch.
void backward(const LayerGradients&, const MlpBackward&, const RowGate&);

// For an MLP that is `inner` wide.
void add_tensors(const ModelConfig&, const MlpNames&, u32 inner, bool biases, LayerTensors&);
constexpr MlpWidths widths_of(u32 inner) { return {.values = 2 * inner, .inner = inner, .apart = true}; }

}  // namespace tidepool::glu
