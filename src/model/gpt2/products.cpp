// Norms and products of a GPT-2 layer, with their gradients.
#include "model/gpt2/layer.h"

namespace tidepool::gpt2 {
namespace {

LayerTensor weight_of(NormSite site) {
  return site == NormSite::ln_1 ? LayerTensor::ln_1_weight : LayerTensor::ln_2_weight;
}
LayerTensor bias_of(NormSite site) {
  return site == NormSite::ln_1 ? LayerTensor::ln_1_bias : LayerTensor::ln_2_bias;
}
NormWeights weights_of(const Layer& l, NormSite site) {
  return {l.window[weight_of(site)], l.window[bias_of(site)]};
}

}  // namespace

void norm_of(const Layer& l, NormSite site, ConstValues x, Values y, const NormScratch* moments) {
  norm_forward(l.c, weights_of(l, site),
               {.rows = rows_of(l.c),
                .x = x,
                .y = y,
                .mean = moments != nullptr ? moments->mean : nullptr,
                .rstd = moments != nullptr ? moments->rstd : nullptr});
}

void norm_gradient(const LayerGradients& s, NormSite site, ConstValues x) {
  norm_backward(s.layer.c, weights_of(s.layer, site), {s.window[weight_of(site)], s.window[bias_of(site)]},
                {.x = x,
                 .dy = s.workspace.narrow,
                 .dx = s.b.grad,
                 .add_to_dx = true,
                 .accumulate = s.b.accumulate,
                 .moments = s.workspace.moments});
}

void residual_product(const Layer& l, const ResidualProduct& p, ConstValues x, Values y,
                      ConstValues residual) {
  Matmul product = {.m = rows_of(l.c),
                    .n = l.h(),
                    .k = p.k,
                    .x = x,
                    .weight = l.window[p.weight],
                    .bias = l.window[p.bias]};
  const auto run = [&](Matmul& part, ConstValues added_to) {
    part.epilogue = Epilogue::residual;
    part.y = y;
    part.residual = added_to;
    part.dropout = dropout_of(l.c, p.site, l.c.graph.config.residual_dropout);
    l.c.kernels.matmul(part);
  };
  run(product, residual);
  if (!l.adapters.has(p.module.first)) return;
  Matmul up = l.adapters.up(p.module.first, x);
  run(up, y);
}

ConstValues through_dropout(const LayerGradients& s, DropoutSite site) {
  const BlockContext& c = s.layer.c;
  const Dropout dropout = dropout_of(c, site, c.graph.config.residual_dropout);
  if (!dropout.on()) return s.b.grad;
  c.kernels.dropout(dropout, s.b.grad, s.workspace.dropped, u64{rows_of(c)} * s.layer.h());
  return s.workspace.dropped;
}

void weight_gradient(const LayerGradients& s, const Product& weights, ConstValues x, ConstValues dy) {
  if (s.window[weights.weight] == nullptr) return;
  s.layer.c.kernels.weight_gradient({.m = rows_of(s.layer.c),
                                     .n = weights.n,
                                     .k = weights.k,
                                     .x = x,
                                     .dy = dy,
                                     .dw = s.window[weights.weight],
                                     .dbias = s.window[weights.bias],
                                     .accumulate = s.b.accumulate});
}

void gradients(const LayerGradients& s, const Product& weights, ConstValues x, ConstValues dy) {
  weight_gradient(s, weights, x, dy);
  s.layer.c.kernels.matmul({.m = rows_of(s.layer.c),
                            .n = weights.k,
                            .k = weights.n,
                            .x = dy,
                            .weight = s.layer.window[weights.weight],
                            .transposed = true,
                            .y = s.workspace.narrow});
  s.layer.adapters.gradients(weights.module, x, dy, s.workspace.narrow, s.adapters);
}

}  // namespace tidepool::gpt2
