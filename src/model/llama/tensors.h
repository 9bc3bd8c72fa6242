// The tensors of a Llama-like layer: one table for all families, each of which has some of them.
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
  qkv,  // of families that have them as one tensor
  q_bias,
  k_bias,
  v_bias,
  q_norm,
  k_norm,
  o,
  o_bias,
  attention_branch_norm,  // of what attention adds, in styles that normalise it
  mlp_norm,
  gate,
  up,
  gate_up,  // likewise
  gate_bias,
  up_bias,
  down,
  down_bias,
  mlp_branch_norm,
};
inline constexpr u32 tensor_count = 22;

// The linear layers, in the order of their products.
LinearModules linear_modules(const ModelConfig&);
// The products' shares of them.
struct ProductModules {
  JoinedModules qkv, o, gate_up, down;
};
ProductModules product_modules(const ModelConfig&);

// "self_attn.q_proj.weight"
std::string_view name(const ModelConfig&, LayerTensor);
// RETURNS: true if it goes on where the tensor before ends.
bool is_joined(LayerTensor);
bool has_tensor(const ModelConfig&, LayerTensor);
std::vector<u64> shape_of(const ModelConfig&, LayerTensor);
// Its number in its window; `none` where the family has it not.
u32 tensor_index(const ModelConfig&, LayerTensor);

}  // namespace tidepool::llama
