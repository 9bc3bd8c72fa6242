// The gated MLP of a dense layer, or of the shared experts: gate and up in one product, then down.
#include "model/deepseek/layer.h"

namespace tidepool::deepseek {
namespace {

using enum LayerTensor;

Product gate_up_product(const Layer& l) {
  return {.weight = gate, .n = 2 * l.inner(), .k = l.config().width, .modules = l.modules().gate_up};
}
Product down_product(const Layer& l) {
  return {.weight = down, .n = l.config().width, .k = l.inner(), .modules = l.modules().down};
}

}  // namespace

void gate_up_of(const Layer& l, ConstValues norm, Values gate_up) {
  product(l, gate_up_product(l), norm, gate_up);
}

void rest_of_mlp(const Layer& l, const RestOfMlp& m) {
  l.c.kernels.glu({.rows = rows_of(l.c), .columns = l.inner(), .gate_up = m.gate_up, .y = m.inner});
  product(l, down_product(l), m.inner, m.out, m.middle);
}

void mlp_backward(const LayerGradients& s, Values dnorm, bool add) {
  const Product down = down_product(s.layer), gate_up = gate_up_product(s.layer);
  const Values inner = s.workspace.latents.q;
  const ConstValues dout = s.b.grad;
  // Not one call of gradients(): only glu_backward below recomputes down's x, and it needs dx first.
  s.layer.c.kernels.matmul({.m = rows_of(s.layer.c),
                            .n = down.k,
                            .k = down.n,
                            .x = dout,
                            .weight = s.layer[down.weight],
                            .y = inner});
  s.layer.adapters.add_input_gradient(down.modules, dout, inner);
  // The same pass recomputes the gated unit's output, `value`, because both need the same exp.
  s.layer.c.kernels.glu_backward({.rows = rows_of(s.layer.c),
                                  .columns = s.layer.inner(),
                                  .gate_up = s.inside.gate_up,
                                  .dy = inner,
                                  .dgate_up = s.workspace.dgate_up,
                                  .value = inner});
  weight_gradient(s, down, inner, dout);
  s.layer.adapters.weight_gradients(down.modules, inner, dout, s.adapters);
  gradients(s, gate_up, s.workspace.norm, s.workspace.dgate_up, dnorm, add);
}

}  // namespace tidepool::deepseek
