// The tensors of a Llama-like layer: one table for all families. Each family has some of the tensors.
#pragma once

#include <string_view>

#include "model/adapters.h"
#include "tidepool/model_graph.h"

namespace tidepool::llama {

// In window order. Tensors that one product reads lie side by side: q, k, v; gate, up; and their biases.
enum class LayerTensor : u8 {
  input_norm,
  q,
  k,
  v,
  qkv,  // in families whose q, k and v are one tensor
  q_bias,
  k_bias,
  v_bias,
  q_norm,
  k_norm,
  o,
  o_bias,
  sinks,                  // a score per head that takes a share of its softmax
  attention_branch_norm,  // in styles that normalise branches
  mlp_norm,
  router,  // in layers with experts, which have none of the tensors after router_bias
  router_bias,
  gate,
  up,
  gate_up,  // in families whose gate and up are one tensor
  gate_bias,
  up_bias,
  down,
  down_bias,
  mlp_branch_norm,
};
inline constexpr u32 tensor_count = 25;
static_assert(static_cast<u32>(LayerTensor::mlp_branch_norm) + 1 == tensor_count);

// The linear layers of a block, in the order of their products.
LinearModules linear_modules(const ModelConfig&, BlockKind);
// The linear layers that each product computes. Attention blocks have a router, layers have gate_up and down.
struct ProductModules {
  JoinedModules qkv, o, router, gate_up, down;
};
ProductModules product_modules(const ModelConfig&);

// RETURNS: the tensor's name within its layer, as in files: "self_attn.q_proj.weight".
std::string_view name(const ModelConfig&, LayerTensor);
// RETURNS: true if the tensor starts where the tensor before it ends.
bool is_joined(LayerTensor);
bool has_tensor(const ModelConfig&, BlockKind, LayerTensor);
std::vector<u64> shape_of(const ModelConfig&, LayerTensor);
// RETURNS: the tensor's number in its window; `none` if the block does not have the tensor.
u32 tensor_index(const ModelConfig&, BlockKind, LayerTensor);

}  // namespace tidepool::llama
