#include "model/mlps/plain/plain.h"

namespace tidepool::plain {
namespace {

enum class Role : u8 { up = mlp_roles, up_bias, down, down_bias };

void add_dense(const ModelConfig& c, u32, LayerTensors& out) {
  const bool biases = style(c.family).all_biases || c.mlp.bias;
  add_tensors(c, style(c.family).mlp_names, c.inner(), biases, out);
}

MlpWidths widths(const ModelConfig& c, u32) { return widths_of(c.inner()); }

Product up_product(const Layer& l) { return l.product(Role::up, Role::up_bias); }
Product down_product(const Layer& l) { return l.product(Role::down, Role::down_bias); }

bool is_gelu(const Layer& l) { return l.style().mlp == MlpKind::gelu; }
Epilogue activation(const Layer& l) { return is_gelu(l) ? Epilogue::gelu : Epilogue::squared_relu; }
Epilogue activation_backward(const Layer& l) {
  return is_gelu(l) ? Epilogue::gelu_backward : Epilogue::squared_relu_backward;
}

// pre = x up, y = act(pre). If `y` is null, the activation is not computed. If `pre` is null, it is not
// stored.
// REQUIRES: at most one of the two is null.
void up_and_activate(const Layer& l, ConstValues x, Values pre, Values y) {
  const Product up = up_product(l);
  const auto finish = [&](Matmul& product) {
    product.epilogue = y ? activation(l) : Epilogue::none;
    product.y = y ? y : pre;
    product.pre = y ? pre : Values();
    l.c.kernels.matmul(product);
  };
  Matmul product = product_matmul(l, up, x, {});
  if (!l.adapters.has(up.modules.first)) return finish(product);
  product.y = pre ? pre : y;
  l.c.kernels.matmul(product);
  Matmul adapter = l.adapters.up(up.modules.first, x);
  adapter.addend = product.y;
  finish(adapter);
}

void forward(const Layer& l, const MlpForward& m) {
  up_and_activate(l, m.norm, m.values, m.inner);
  add_product(l, down_product(l), m.inner, m.sum);
}

void recompute(const Layer& l, ConstValues norm, Values values) { up_and_activate(l, norm, values, {}); }

// Computes frame.dvalues from dout: the backward of the last product and of the activation. The same pass
// recomputes the activation's output into the frame's `inner`, because both need the same factors.
void activation_gradient(const LayerGradients& s, ConstValues dout) {
  const Layer& l = s.layer;
  const Product down = down_product(l);
  const Values inner = s.frame.buffers.inner;
  Matmul product = input_gradient(l, down, dout, s.frame.dvalues);
  if (l.adapters.has(down.modules.first)) {
    l.adapters.input_gradient(down.modules.first, dout, inner);
    product.addend = inner;
  }
  product.epilogue = activation_backward(l);
  product.pre_in = s.inside.values;
  product.value = inner;
  l.c.kernels.matmul(product);
}

void backward(const LayerGradients& s, const MlpBackward& m) {
  const Product down = down_product(s.layer);
  const Values inner = s.frame.buffers.inner;
  activation_gradient(s, m.dout);
  weight_gradient(s, down, inner, m.dout);
  s.layer.adapters.weight_gradients(down.modules, inner, m.dout, s.adapters);
  gradients(s, up_product(s.layer), s.mlp_input(), s.frame.dvalues, m.dnorm, m.add);
}

}  // namespace

void add_tensors(const ModelConfig& c, const MlpNames& names, u32 inner, bool biases, LayerTensors& out) {
  out.add_matrix(Role::up, names.up, inner, c.width);
  if (biases) out.add_bias(Role::up_bias, names.up, inner);
  out.add_matrix(Role::down, names.down, c.width, inner).residual = true;
  if (biases) out.add_bias(Role::down_bias, names.down, c.width);
}

const Mlp row = {
    .tensors = add_dense, .widths = widths, .forward = forward, .recompute = recompute, .backward = backward};

}  // namespace tidepool::plain
