// Norms and products of DeepSeek-V3's layers, with their gradients.
#include "model/deepseek/layer.h"

namespace tidepool::deepseek {

void norm_of(const Layer& l, LayerTensor weight, ConstValues x, Values y, const NormScratch* moments) {
  norm_forward(l.c, {.weight = l[weight], .bias = {}},
               {.rows = rows_of(l.c), .x = x, .y = y, .rstd = moments != nullptr ? moments->rstd : nullptr});
}

void norm_gradient(const LayerGradients& s, LayerTensor weight, ConstValues x, ConstValues dy,
                   bool accumulate) {
  norm_backward(s.layer.c, {.weight = s.layer[weight], .bias = {}}, {.weight = s[weight]},
                {.x = x,
                 .dy = dy,
                 .dx = s.b.grad,
                 .add_to_dx = true,
                 .accumulate = accumulate,
                 .moments = s.workspace.moments});
}

void product(const Layer& l, const Product& p, ConstValues x, Values y, ConstValues residual) {
  Matmul matmul = {.m = rows_of(l.c),
                   .n = p.n,
                   .k = p.k,
                   .x = x,
                   .weight = l[p.weight],
                   .transposed = true,
                   .bias = l[p.bias],
                   .y = y};
  if (residual) matmul.epilogue = Epilogue::residual, matmul.residual = residual;
  l.c.kernels.matmul(matmul);
  l.adapters.add_to(p.modules, x, y);
}

void weight_gradient(const LayerGradients& s, const Product& p, ConstValues x, ConstValues dy) {
  if (s[p.weight] == nullptr) return;
  s.layer.c.kernels.weight_gradient({.m = rows_of(s.layer.c),
                                     .n = p.n,
                                     .k = p.k,
                                     .x = x,
                                     .dy = dy,
                                     .dw = s[p.weight],
                                     .dbias = s[p.bias],
                                     .accumulate = s.b.accumulate,
                                     .transposed = true});
}

void gradients(const LayerGradients& s, const Product& p, ConstValues x, ConstValues dy, Values dx,
               bool add) {
  weight_gradient(s, p, x, dy);
  s.layer.c.kernels.matmul({.m = rows_of(s.layer.c),
                            .n = p.k,
                            .k = p.n,
                            .x = dy,
                            .weight = s.layer[p.weight],
                            .accumulate = add,
                            .y = dx});
  s.layer.adapters.gradients(p.modules, x, dy, dx, s.adapters);
}

}  // namespace tidepool::deepseek
