// Kernels of a GPT-2 layer.
#include "kernels/attention/attention_cost.h"
#include "kernels/dropout/dropout_cost.h"
#include "kernels/gelu/gelu_cost.h"
#include "kernels/layer_norm/layer_norm_cost.h"
#include "kernels/matmul/matmul_cost.h"
#include "model/block_costs.h"
#include "model/block_layouts.h"
#include "model/gpt2_tensors.h"

namespace tidepool {
namespace {

using Kernels = std::vector<KernelCost>;

struct Shape {
  explicit Shape(const ModelGraph& g)
      : rows(g.batch.rows()),
        h(g.config.width),
        inner(g.config.inner()),
        weight_bytes(element_bytes(Kind::param, g.precision)),
        attention(attention_shape(g)),
        attention_dropout(g.config.attention_dropout > 0),
        residual_dropout(g.config.residual_dropout > 0),
        adapters(g) {}

  KernelCost product(u64 n, u64 k) const { return matmul_cost(rows, n, k, weight_bytes); }
  KernelCost norm() const { return layer_norm_cost(rows, h); }
  KernelCost norm_backward() const { return layer_norm_backward_cost(rows, h); }

  u64 rows, h, inner, weight_bytes;
  AttentionShape attention;
  bool attention_dropout, residual_dropout;
  AdapterCosts adapters;
};

KernelCost with_dropout(KernelCost attention, const Shape& s) {
  if (s.attention_dropout) attention.vector_flops += dropout_flops(attention_pairs(s.attention));
  return attention;
}

void add_residual(Kernels& out, const Shape& s) {
  out.push_back(residual_cost(s.rows, s.h));
  if (s.residual_dropout) out.back().vector_flops += dropout_flops(s.rows * s.h);
}

// y = x w + b, y [rows, n], with its adapter.
void add_forward(Kernels& out, const Shape& s, u64 n, u64 k, JoinedModules module) {
  out.push_back(s.product(n, k));
  s.adapters.add_forward(out, module);
}

// Its gradients: of its weight and bias if they are trained, and of its input.
void add_gradients(Kernels& out, const Shape& s, u64 n, u64 k) {
  if (!s.adapters.on()) {
    out.push_back(weight_gradient_cost(s.rows, n, k));
    out.push_back(bias_gradient_cost(s.rows, n));
  }
  out.push_back(s.product(k, n));
}
// And of its adapter.
void add_gradients(Kernels& out, const Shape& s, u64 n, u64 k, JoinedModules module) {
  add_gradients(out, s, n, k);
  s.adapters.add_gradients(out, module);
}

Kernels attention_half(const Shape& s) {
  Kernels out = {s.norm()};
  add_forward(out, s, 3 * s.h, s.h, gpt2_modules::c_attn);
  out.push_back(with_dropout(attention_cost(s.attention), s));
  add_forward(out, s, s.h, s.h, gpt2_modules::attn_c_proj);
  add_residual(out, s);
  return out;
}

Kernels layer_forward(const Shape& s) {
  Kernels out = attention_half(s);
  out.push_back(s.norm());
  add_forward(out, s, s.inner, s.h, gpt2_modules::c_fc);
  out.push_back(gelu_cost(s.rows * s.inner));
  add_forward(out, s, s.h, s.inner, gpt2_modules::mlp_c_proj);
  add_residual(out, s);
  return out;
}

// Everything but the last product and GELU, which backward makes on the way; ln_2 is its own anyway.
Kernels layer_recompute(const Shape& s) {
  Kernels out = attention_half(s);
  add_forward(out, s, s.inner, s.h, gpt2_modules::c_fc);
  return out;
}

Kernels layer_backward(const Shape& s) {
  Kernels out = {s.norm()};
  if (s.residual_dropout) out.push_back(dropout_cost(s.rows * s.h));
  add_gradients(out, s, s.h, s.inner);
  s.adapters.add_input_gradient(out, gpt2_modules::mlp_c_proj);
  s.adapters.add_weight_gradients(out, gpt2_modules::mlp_c_proj);
  out.push_back(gelu_backward_cost(s.rows * s.inner));
  add_gradients(out, s, s.inner, s.h, gpt2_modules::c_fc);
  out.push_back(s.norm_backward());
  if (s.residual_dropout) out.push_back(dropout_cost(s.rows * s.h));
  add_gradients(out, s, s.h, s.h, gpt2_modules::attn_c_proj);
  out.push_back(with_dropout(attention_backward_cost(s.attention), s));
  out.push_back(s.norm());
  add_gradients(out, s, 3 * s.h, s.h, gpt2_modules::c_attn);
  out.push_back(s.norm_backward());
  return out;
}

}  // namespace

void set_gpt2_layer_costs(Block& block, const ModelGraph& graph) {
  const Shape s(graph);
  set_kernels(block,
              {.forward = layer_forward(s), .backward = layer_backward(s), .recompute = layer_recompute(s)});
}

}  // namespace tidepool
