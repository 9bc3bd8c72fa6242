#include "model/mlps/glu/glu.h"

namespace tidepool::glu {
namespace {

enum class Role : u8 {
  gate = mlp_roles,
  up,
  gate_up,    // in families whose gate and up are one tensor
  gate_bias,  // or the bias of gate_up
  up_bias,
  down,
  down_bias,
};

void add_dense(const ModelConfig& c, LayerTensors& out) {
  add_tensors(c, style(c.family).mlp_names, c.inner(), c.mlp.bias, out);
}

MlpWidths widths(const ModelConfig& c) { return widths_of(c.inner()); }

Product gate_up_product(const Layer& l) {
  if (traits(l.config().family).fused_projections) return l.product(Role::gate_up, Role::gate_bias);
  return l.product(Role::gate, Role::gate_bias, 2);
}
Product down_product(const Layer& l) { return l.product(Role::down, Role::down_bias); }

GluGate gate_of(const Layer& l) { return l.style().gate == MlpGate::gelu ? GluGate::gelu : GluGate::silu; }

void recompute(const Layer& l, ConstValues norm, Values values) {
  product(l, gate_up_product(l), norm, values);
}

void forward(const Layer& l, const MlpForward& m) {
  const Product down = down_product(l);
  recompute(l, m.norm, m.values);
  l.c.kernels.glu(
      {.rows = rows_of(l.c), .columns = down.k, .gate = gate_of(l), .gate_up = m.values, .y = m.inner});
  add_product(l, down, m.inner, m.sum);
}

void backward(const LayerGradients& s, const MlpBackward& m) {
  const Layer& l = s.layer;
  const Product down = down_product(l);
  const Values inner = s.frame.buffers.inner;
  // Not one call of gradients(): only glu_backward below recomputes down's x, and it needs dx first.
  l.c.kernels.matmul(input_gradient(l, down, m.dout, inner));
  l.adapters.add_input_gradient(down.modules, m.dout, inner);
  // The same pass recomputes the gated unit's output, `value`, because both need the same exp.
  l.c.kernels.glu_backward({.rows = rows_of(l.c),
                            .columns = down.k,
                            .gate = gate_of(l),
                            .gate_up = s.inside.values,
                            .dy = inner,
                            .dgate_up = s.frame.dvalues,
                            .value = inner});
  weight_gradient(s, down, inner, m.dout);
  l.adapters.weight_gradients(down.modules, inner, m.dout, s.adapters);
  gradients(s, gate_up_product(l), s.frame.buffers.norm, s.frame.dvalues, m.dnorm, m.add);
}

}  // namespace

void add_tensors(const ModelConfig& c, const MlpNames& names, u32 inner, bool biases, LayerTensors& out) {
  const u32 h = c.width;
  const bool fused = traits(c.family).fused_projections;
  if (fused) {
    out.add_matrix(Role::gate_up, names.gate_up, 2 * inner, h).joined = {inner, inner};
    if (biases) out.add_bias(Role::gate_bias, names.gate_up, 2 * inner);
  } else {
    out.add_matrix(Role::gate, names.gate, inner, h);
    out.add_matrix(Role::up, names.up, inner, h).fused = true;
    if (biases) out.add_bias(Role::gate_bias, names.gate, inner);
    if (biases) out.add_bias(Role::up_bias, names.up, inner).fused = true;
  }
  out.add_matrix(Role::down, names.down, h, inner).residual = true;
  if (biases) out.add_bias(Role::down_bias, names.down, h);
}

const Mlp row = {
    .tensors = add_dense, .widths = widths, .forward = forward, .recompute = recompute, .backward = backward};

}  // namespace tidepool::glu
