// Norms and products of a layer, with their gradients.
#include "model/layer_parts.h"

namespace tidepool {
namespace {

// Only layer norms have biases.
NormRole bias_of(NormRole norm) {
  return norm == NormRole::input ? NormRole::input_bias : norm == NormRole::mlp ? NormRole::mlp_bias : norm;
}
NormWeights weights_of(const Layer& l, NormRole norm) {
  const NormRole bias = bias_of(norm);
  return {.weight = l[norm], .bias = bias == norm ? Param{} : l[bias]};
}
NormGradients norm_gradients_of(const LayerGradients& s, NormRole norm) {
  const NormRole bias = bias_of(norm);
  return {.weight = s[norm], .bias = bias == norm ? nullptr : s[bias]};
}

Dropout sum_dropout(const Layer& l, DropoutSite site) {
  Dropout out = l.style().residual_dropout ? dropout_of(l.c, site, l.config().residual_dropout) : Dropout{};
  out.factor = static_cast<float>(l.config().factors.residual);
  return out;
}

void add(const Layer& l, Matmul& product, const ResidualSum& sum, ConstValues added_to) {
  product.epilogue = Epilogue::residual;
  product.y = sum.y;
  product.residual = added_to;
  product.dropout = sum_dropout(l, sum.site);
  l.c.kernels.matmul(product);
}

}  // namespace

Layer::Layer(const BlockContext& context, std::span<const std::byte* const> windows,
             const AdapterScratch& scratch)
    : c(context),
      part(part_of(context.graph, block_of(context))),
      tensors(context.graph.config, block_of(context).layer, part),
      window(params_of(context, windows, 0)),
      adapters(context, tensors.modules(), windows, scratch) {}

Product Layer::product_of(u32 weight, u32 bias, u32 count) const {
  CHECK(weight != none, number());
  Product p = {.weight = weight,
               .bias = bias,
               .k = tensors[weight].columns,
               .modules = {tensors.module(weight), tensors[weight].adapted ? count : 0}};
  for (u32 i = 0; i < count; ++i) p.n += tensors[weight + i].rows;
  return p;
}

void norm_of(const Layer& l, NormRole norm, ConstValues x, Values y, const NormScratch* moments) {
  norm_forward(l.c, weights_of(l, norm),
               {.rows = rows_of(l.c),
                .x = x,
                .y = y,
                .mean = moments != nullptr ? moments->mean : nullptr,
                .rstd = moments != nullptr ? moments->rstd : nullptr});
}

ConstValues input_norm_of(const Layer& l, NormRole norm, ConstValues x, Values to,
                          const NormScratch* moments) {
  if (l.tensors.find(norm) == none) return x;
  norm_of(l, norm, x, to, moments);
  return to;
}

void norm_gradient(const LayerGradients& s, NormRole norm, ConstValues x, ConstValues dy) {
  norm_backward(s.layer.c, weights_of(s.layer, norm), norm_gradients_of(s, norm),
                {.x = x,
                 .dy = dy,
                 .dx = s.b.grad,
                 .add_to_dx = true,
                 .accumulate = s.b.accumulate,
                 .moments = s.frame.buffers.moments});
}

void add_norm(const Layer& l, NormRole norm, ConstValues x, ConstValues residual, Values y) {
  norm_forward(l.c, weights_of(l, norm), {.rows = rows_of(l.c), .x = x, .residual = residual, .y = y});
}

void branch_norm_gradient(const LayerGradients& s, NormRole norm, ConstValues x, ConstValues dy, Values dx) {
  const BackwardBuffers& buffers = s.frame.buffers;
  norm_of(s.layer, norm, x, buffers.norm, &buffers.moments);  // for its moments alone
  norm_backward(s.layer.c, weights_of(s.layer, norm), norm_gradients_of(s, norm),
                {.x = x, .dy = dy, .dx = dx, .accumulate = s.b.accumulate, .moments = buffers.moments});
}

void recompute_input_norm(const LayerGradients& s) {
  input_norm_of(s.layer, NormRole::input, s.b.input, s.frame.buffers.norm, &s.frame.buffers.moments);
}

Matmul product_matmul(const Layer& l, const Product& p, ConstValues x, Values y) {
  return {.m = rows_of(l.c),
          .n = p.n,
          .k = p.k,
          .x = x,
          .weight = l.at(p.weight),
          .transposed = !l.style().matrices_in_out,
          .bias = l.at(p.bias),
          .y = y};
}

void product(const Layer& l, const Product& p, ConstValues x, Values y) {
  l.c.kernels.matmul(product_matmul(l, p, x, y));
  l.adapters.add_to(p.modules, x, y);
}

void add_branch(const Layer& l, const ResidualSum& sum) {
  norm_forward(l.c, weights_of(l, sum.norm),
               {.rows = rows_of(l.c),
                .x = sum.branch.value,
                .residual = sum.residual,
                .y = sum.y,
                .rstd = sum.branch.rstd});
}

void add_product(const Layer& l, const Product& p, ConstValues x, const ResidualSum& sum) {
  if (l.style().branch_norms) {
    product(l, p, x, sum.branch.value);
    return add_branch(l, sum);
  }
  if (!sum.y) return;
  Matmul matmul = product_matmul(l, p, x, sum.y);
  add(l, matmul, sum, sum.residual);
  // The adapter's product takes the same dropout, so it may be added afterwards.
  if (!l.style().residual_dropout && !sum_dropout(l, sum.site).on())
    return l.adapters.add_to(p.modules, x, sum.y);
  if (p.modules.count == 0 || !l.adapters.has(p.modules.first)) return;
  Matmul up = l.adapters.up(p.modules.first, x);
  add(l, up, sum, sum.y);
}

ConstValues sum_gradient(const LayerGradients& s, const ResidualSum& sum, Values to) {
  const BlockContext& c = s.layer.c;
  if (s.layer.style().branch_norms) {
    norm_backward(c, weights_of(s.layer, sum.norm), norm_gradients_of(s, sum.norm),
                  {.x = sum.branch.value,
                   .dy = sum.dy ? sum.dy : ConstValues(s.b.grad),
                   .dx = to,
                   .accumulate = s.b.accumulate,
                   .moments = {.rstd = sum.branch.rstd, .partials = s.frame.buffers.moments.partials}});
    return to;
  }
  const Dropout dropout = sum_dropout(s.layer, sum.site);
  if (!dropout.on()) return s.b.grad;
  const Values dropped = s.frame.buffers.dropped;
  c.kernels.dropout(dropout, s.b.grad, dropped, u64{rows_of(c)} * s.config().width);
  return dropped;
}

void weight_gradient(const LayerGradients& s, const Product& p, ConstValues x, ConstValues dy) {
  if (s.at(p.weight) == nullptr) return;
  s.layer.c.kernels.weight_gradient({.m = rows_of(s.layer.c),
                                     .n = p.n,
                                     .k = p.k,
                                     .x = x,
                                     .dy = dy,
                                     .dw = s.at(p.weight),
                                     .dbias = s.at(p.bias),
                                     .accumulate = s.b.accumulate,
                                     .transposed = !s.layer.style().matrices_in_out});
}

Matmul input_gradient(const Layer& l, const Product& p, ConstValues dy, Values dx) {
  return {.m = rows_of(l.c),
          .n = p.k,
          .k = p.n,
          .x = dy,
          .weight = l.at(p.weight),
          .transposed = l.style().matrices_in_out,
          .y = dx};
}

void gradients(const LayerGradients& s, const Product& p, ConstValues x, ConstValues dy, Values dx,
               bool add) {
  weight_gradient(s, p, x, dy);
  Matmul matmul = input_gradient(s.layer, p, dy, dx);
  matmul.accumulate = add;
  s.layer.c.kernels.matmul(matmul);
  s.layer.adapters.gradients(p.modules, x, dy, dx, s.adapters);
}

}  // namespace tidepool
