// Norms and products of a Llama-like layer, with their gradients.
#include "model/llama/layer.h"

namespace tidepool::llama {
namespace {

Matmul matmul_of(const Layer& l, const Product& p, ConstValues x, Values y) {
  return {.m = rows_of(l.c),
          .n = p.n,
          .k = p.k,
          .x = x,
          .weight = l[p.weight],
          .transposed = true,
          .bias = l[p.bias],
          .y = y};
}

}  // namespace

void norm_of(const Layer& l, LayerTensor weight, ConstValues x, Values y, const NormScratch* moments) {
  norm_forward(l.c, {.weight = l[weight], .bias = {}},
               {.rows = rows_of(l.c), .x = x, .y = y, .rstd = moments != nullptr ? moments->rstd : nullptr});
}

void norm_gradient(const LayerGradients& s, LayerTensor weight, ConstValues x) {
  norm_backward(s.layer.c, {.weight = s.layer[weight], .bias = {}}, {.weight = s[weight]},
                {.x = x,
                 .dy = s.workspace.narrow,
                 .dx = s.b.grad,
                 .add_to_dx = true,
                 .accumulate = s.b.accumulate,
                 .moments = s.workspace.moments});
}

void product(const Layer& l, const Product& p, ConstValues x, Values y) {
  l.c.kernels.matmul(matmul_of(l, p, x, y));
  l.adapters.add_to(p.modules, x, y);
}

void add_branch(const Layer& l, const Product& p, const AddBranch& a) {
  if (style(l.config().family).branch_norms) {
    product(l, p, a.x, a.branch.value);
    return norm_forward(
        l.c, {.weight = l[a.norm], .bias = {}},
        {.rows = rows_of(l.c), .x = a.branch.value, .residual = a.residual, .y = a.y, .rstd = a.branch.rstd});
  }
  Matmul matmul = matmul_of(l, p, a.x, a.y);
  matmul.epilogue = Epilogue::residual;
  matmul.residual = a.residual;
  l.c.kernels.matmul(matmul);
  l.adapters.add_to(p.modules, a.x, a.y);
}

ConstValues branch_gradient(const LayerGradients& s, LayerTensor norm, const Branch& branch, Values to) {
  if (!style(s.config().family).branch_norms) return s.b.grad;
  norm_backward(s.layer.c, {.weight = s.layer[norm], .bias = {}}, {.weight = s[norm]},
                {.x = branch.value,
                 .dy = s.b.grad,
                 .dx = to,
                 .accumulate = s.b.accumulate,
                 .moments = {.rstd = branch.rstd, .partials = s.workspace.moments.partials}});
  return to;
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

void input_gradient(const LayerGradients& s, const Product& p, ConstValues dy, Values dx) {
  s.layer.c.kernels.matmul(
      {.m = rows_of(s.layer.c), .n = p.k, .k = p.n, .x = dy, .weight = s.layer[p.weight], .y = dx});
}

void gradients(const LayerGradients& s, const Product& p, ConstValues x, ConstValues dy, Values dx) {
  weight_gradient(s, p, x, dy);
  input_gradient(s, p, dy, dx);
  s.layer.adapters.gradients(p.modules, x, dy, dx, s.adapters);
}

}  // namespace tidepool::llama
