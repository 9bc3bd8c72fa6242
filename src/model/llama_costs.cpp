// Kernels of a Llama-like layer.
#include "kernels/attention/attention_cost.h"
#include "kernels/dropout/dropout_cost.h"
#include "kernels/matmul/matmul_cost.h"
#include "kernels/rms_norm/rms_norm_cost.h"
#include "kernels/rotary/rotary_cost.h"
#include "kernels/swiglu/swiglu_cost.h"
#include "model/adapters.h"
#include "model/block_costs.h"
#include "model/llama_layouts.h"
#include "model/llama_tensors.h"

namespace tidepool {
namespace {

using Kernels = std::vector<KernelCost>;

struct Product {
  u64 n, k;  // y [R, n] = x [R, k] w^T
  bool bias;
  JoinedModules modules;
};

struct Shape {
  explicit Shape(const ModelGraph& g)
      : rows(g.batch.rows()),
        h(g.config.width),
        inner(g.config.inner()),
        weight_bytes(element_bytes(Kind::param, g.precision)),
        qkv{g.config.qkv_width(), h, g.config.qkv_bias(), llama_modules::qkv},
        o{h, g.config.query_width(), g.config.attention_bias, llama_modules::o},
        gate_up{2 * inner, h, g.config.mlp_bias, llama_modules::gate_up},
        down{h, inner, g.config.mlp_bias, llama_modules::down},
        attention(attention_shape(g)),
        rotary(rotary_shape(g)),
        qk_norm(g.config.qk_norm()),
        dropout(g.config.attention_dropout > 0),
        adapters(g) {}

  KernelCost norm() const { return rms_norm_cost(rows, h); }
  KernelCost norm_backward() const { return rms_norm_backward_cost(rows, h); }

  u64 rows, h, inner, weight_bytes;
  Product qkv, o, gate_up, down;
  AttentionShape attention;
  RotaryShape rotary;
  bool qk_norm, dropout;
  AdapterCosts adapters;
};

KernelCost with_dropout(KernelCost attention, const Shape& s) {
  if (s.dropout) attention.vector_flops += dropout_flops(attention_pairs(s.attention));
  return attention;
}

void add_forward(Kernels& out, const Shape& s, const Product& p) {
  out.push_back(matmul_cost(s.rows, p.n, p.k, s.weight_bytes));
  s.adapters.add_forward(out, p.modules);
}
// Of a product's weights and biases, and of its input.
void add_weight_gradient(Kernels& out, const Shape& s, const Product& p) {
  if (s.adapters.on()) return;
  out.push_back(weight_gradient_cost(s.rows, p.k, p.n));
  if (p.bias) out.push_back(bias_gradient_cost(s.rows, p.n));
}
void add_input_gradient(Kernels& out, const Shape& s, const Product& p) {
  out.push_back(matmul_cost(s.rows, p.k, p.n, s.weight_bytes));
}
void add_gradients(Kernels& out, const Shape& s, const Product& p) {
  add_weight_gradient(out, s, p);
  add_input_gradient(out, s, p);
  s.adapters.add_gradients(out, p.modules);
}

enum class Turned : u8 { here, elsewhere };

Kernels attention_half(const Shape& s, Turned turned) {
  Kernels out = {s.norm()};
  add_forward(out, s, s.qkv);
  if (turned == Turned::here) out.push_back(rotary_cost(s.rotary, s.qk_norm));
  out.push_back(with_dropout(attention_cost(s.attention), s));
  add_forward(out, s, s.o);
  out.push_back(residual_cost(s.rows, s.h));
  return out;
}

Kernels layer_forward(const Shape& s) {
  Kernels out = attention_half(s, Turned::here);
  out.push_back(s.norm());
  add_forward(out, s, s.gate_up);
  out.push_back(swiglu_cost(s.rows * s.inner));
  add_forward(out, s, s.down);
  out.push_back(residual_cost(s.rows, s.h));
  return out;
}

// All but SwiGLU and the last product; the second norm is backward's own anyway.
Kernels layer_recompute(const Shape& s) {
  Kernels out = attention_half(
      s, s.qk_norm ? Turned::elsewhere : Turned::here);  // backward turns normalised heads anyway
  add_forward(out, s, s.gate_up);
  return out;
}

Kernels layer_backward(const Shape& s) {
  Kernels out;
  if (s.qk_norm) out.push_back(rotary_cost(s.rotary, true));
  out.push_back(s.norm());
  add_input_gradient(out, s, s.down);
  s.adapters.add_input_gradient(out, s.down.modules);
  out.push_back(swiglu_backward_cost(s.rows * s.inner));
  add_weight_gradient(out, s, s.down);
  s.adapters.add_weight_gradients(out, s.down.modules);
  add_gradients(out, s, s.gate_up);
  out.push_back(s.norm_backward());
  add_gradients(out, s, s.o);
  out.push_back(with_dropout(attention_backward_cost(s.attention), s));
  out.push_back(rotary_backward_cost(s.rotary, s.qk_norm));
  out.push_back(s.norm());
  add_gradients(out, s, s.qkv);
  out.push_back(s.norm_backward());
  return out;
}

}  // namespace

void set_llama_layer_costs(Block& block, const ModelGraph& graph) {
  const Shape s(graph);
  set_kernels(block,
              {.forward = layer_forward(s), .backward = layer_backward(s), .recompute = layer_recompute(s)});
}

}  // namespace tidepool
