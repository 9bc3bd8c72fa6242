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

void add_dense(const ModelConfig& c, u32 layer, LayerTensors& out) {
  add_tensors(c, style(c.family).mlp_names, c.dense_inner(layer), c.mlp.bias, out);
}

MlpWidths widths(const ModelConfig& c, u32 layer) { return widths_of(c.dense_inner(layer)); }

Product gate_up_product(const Layer& l) {
  if (l.tensors.find(Role::gate_up) != none) return l.product(Role::gate_up, Role::gate_bias);
  return l.product(Role::gate, Role::gate_bias, 2);
}
Product down_product(const Layer& l) { return l.product(Role::down, Role::down_bias); }

GluGate gate_of(const Layer& l) { return l.style().gate == MlpGate::gelu ? GluGate::gelu : GluGate::silu; }

void recompute(const Layer& l, ConstValues norm, Values values) {
  product(l, gate_up_product(l), norm, values);
}

void glu_of(const Layer& l, ConstValues values, Values inner) {
  l.c.kernels.glu({.rows = rows_of(l.c),
                   .columns = down_product(l).k,
                   .gate = gate_of(l),
                   .gate_up = values,
                   .y = inner});
}

GateShape shape_of(const Layer& l) {
  return {.rows = rows_of(l.c),
          .heads = 1,
          .head_size = down_product(l).k,
          .gate_size = 1,
          .row_stride = 1,
          .head_stride = 1};
}

void gate_rows(const Layer& l, const RowGate& gate, Values inner) {
  l.c.kernels.sigmoid_gate({.shape = shape_of(l), .x = inner, .gates = gate.logits, .y = inner});
}

// Gradient of down's product, down's weights not included. Not one call of gradients(): down's x is computed
// again after its dx.
void inner_gradient(const LayerGradients& s, ConstValues dout, Values inner) {
  const Product down = down_product(s.layer);
  s.layer.c.kernels.matmul(input_gradient(s.layer, down, dout, inner));
  s.layer.adapters.add_input_gradient(down.modules, dout, inner);
}

// Gradients of the MLP's other products, from that of its inner values, which become those values.
void values_gradient(const LayerGradients& s, Values inner) {
  const Layer& l = s.layer;
  // The same pass recomputes the gated unit's output, `value`, because both need the same exp.
  l.c.kernels.glu_backward({.rows = rows_of(l.c),
                            .columns = down_product(l).k,
                            .gate = gate_of(l),
                            .gate_up = s.inside.values,
                            .dy = inner,
                            .dgate_up = s.frame.dvalues,
                            .value = inner});
}

void down_weight_gradients(const LayerGradients& s, ConstValues inner, ConstValues dout) {
  const Product down = down_product(s.layer);
  weight_gradient(s, down, inner, dout);
  s.layer.adapters.weight_gradients(down.modules, inner, dout, s.adapters);
}

void plain_forward(const Layer& l, const MlpForward& m) {
  recompute(l, m.norm, m.values);
  glu_of(l, m.values, m.inner);
  add_product(l, down_product(l), m.inner, m.sum);
}

void plain_backward(const LayerGradients& s, const MlpBackward& m) {
  const Values inner = s.frame.buffers.inner;
  inner_gradient(s, m.dout, inner);
  values_gradient(s, inner);
  down_weight_gradients(s, inner, m.dout);
  gradients(s, gate_up_product(s.layer), s.mlp_input(), s.frame.dvalues, m.dnorm, m.add);
}

}  // namespace

void forward(const Layer& l, const MlpForward& m, const RowGate& gate) {
  recompute(l, m.norm, m.values);
  glu_of(l, m.values, m.inner);
  gate_rows(l, gate, m.inner);
  add_product(l, down_product(l), m.inner, m.sum);
}

void backward(const LayerGradients& s, const MlpBackward& m, const RowGate& gate) {
  const Values inner = s.frame.buffers.inner, value = s.frame.buffers.narrow;
  inner_gradient(s, m.dout, inner);
  glu_of(s.layer, s.inside.values, value);
  s.layer.c.kernels.sigmoid_gate_backward({.shape = shape_of(s.layer),
                                           .x = value,
                                           .gates = gate.logits,
                                           .dy = inner,
                                           .dx = inner,
                                           .dgates = gate.dlogits});
  gate_rows(s.layer, gate, value);
  down_weight_gradients(s, value, m.dout);
  values_gradient(s, inner);
  gradients(s, gate_up_product(s.layer), s.mlp_input(), s.frame.dvalues, m.dnorm, m.add);
}

void add_tensors(const ModelConfig& c, const MlpNames& names, u32 inner, bool biases, LayerTensors& out) {
  const u32 h = c.width;
  const bool fused = traits(c.family).fused_projections || names.gate.empty();
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

const Mlp row = {.tensors = add_dense,
                 .widths = widths,
                 .forward = plain_forward,
                 .recompute = recompute,
                 .backward = plain_backward};

}  // namespace tidepool::glu
