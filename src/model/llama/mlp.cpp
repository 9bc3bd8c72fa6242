// The gated MLP: gate and up in one product, then down; with biases if the config says so.
#include "model/llama/layer.h"

namespace tidepool::llama {
namespace {

using enum LayerTensor;

Product gate_up_product(const ModelConfig& c) {
  return {traits(c.family).joined_projections ? LayerTensor::gate_up : gate, gate_bias, 2 * c.inner(),
          c.width, product_modules(c).gate_up};
}
Product down_product(const ModelConfig& c) {
  return {down, down_bias, c.width, c.inner(), product_modules(c).down};
}

GluGate gate_of(const ModelConfig& c) {
  return style(c.family).mlp == MlpKind::geglu ? GluGate::gelu : GluGate::silu;
}

}  // namespace

void gate_up_of(const Layer& l, ConstValues norm, Values gate_up) {
  product(l, gate_up_product(l.config()), norm, gate_up);
}

void rest_of_mlp(const Layer& l, const RestOfMlp& m) {
  l.c.kernels.glu({.rows = rows_of(l.c),
                   .columns = l.config().inner(),
                   .gate = gate_of(l.config()),
                   .gate_up = m.gate_up,
                   .y = m.inner});
  add_branch(l, down_product(l.config()),
             {.norm = mlp_branch_norm, .x = m.inner, .residual = m.middle, .branch = m.branch, .y = m.out});
}

void mlp_backward(const LayerGradients& s) {
  const Product down = down_product(s.config()), gate_up = gate_up_product(s.config());
  const Values inner = s.workspace.wide;
  const ConstValues dout = branch_gradient(s, mlp_branch_norm, s.inside.mlp_branch, s.workspace.narrow);
  // Not one call of gradients(): only glu_backward below recomputes down's x, and it needs dx first.
  input_gradient(s, down, dout, inner);
  s.layer.adapters.add_input_gradient(down.modules, dout, inner);
  // The same pass recomputes the gated unit's output, `value`, because both need the same exp.
  s.layer.c.kernels.glu_backward({.rows = rows_of(s.layer.c),
                                  .columns = s.config().inner(),
                                  .gate = gate_of(s.config()),
                                  .gate_up = s.inside.gate_up,
                                  .dy = inner,
                                  .dgate_up = s.workspace.dgate_up,
                                  .value = inner});
  weight_gradient(s, down, inner, dout);
  s.layer.adapters.weight_gradients(down.modules, inner, dout, s.adapters);
  gradients(s, gate_up, s.workspace.norm, s.workspace.dgate_up, s.workspace.narrow);
  norm_gradient(s, mlp_norm, s.inside.middle);
}

}  // namespace tidepool::llama
