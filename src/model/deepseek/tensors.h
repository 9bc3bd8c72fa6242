// The tensors of DeepSeek-V3's layers: a layer's, if it is dense, or those of the attention block of a layer
// with experts.
#pragma once

#include <string>

#include "model/adapters.h"
#include "tidepool/model_graph.h"

namespace tidepool::deepseek {

// In window order. Those that a block does not have are left out.
enum class LayerTensor : u8 {
  input_norm,
  q,  // in models whose q is made in one product; the others have the next four
  q_a,
  q_a_bias,
  q_a_norm,
  q_b,
  kv_a,
  kv_a_bias,
  kv_a_norm,
  kv_b,
  o,
  o_bias,
  mlp_norm,
  router,      // in layers with experts
  correction,  // added to scores when experts are chosen; not trained
  gate,        // of the MLP, or of the shared experts
  up,
  down,
  absent,  // stands for the bias of a product without one
};
inline constexpr u32 tensor_count = 18;
static_assert(static_cast<u32>(LayerTensor::absent) == tensor_count);

// Width inside the block's MLP: the layer's, or the shared experts'. 0: none.
u32 mlp_inner(const ModelConfig&, BlockKind);

LinearModules linear_modules(const ModelConfig&, BlockKind);
// The linear layers that each product computes.
struct ProductModules {
  JoinedModules q, q_a, q_b, kv_a, kv_b, o, gate_up, down, router;
};
ProductModules product_modules(const ModelConfig&, BlockKind);

// RETURNS: the tensor's name within its layer, as in files: "self_attn.q_a_proj.weight".
std::string name(const ModelConfig&, BlockKind, LayerTensor);
bool has_tensor(const ModelConfig&, BlockKind, LayerTensor);
std::vector<u64> shape_of(const ModelConfig&, BlockKind, LayerTensor);
// RETURNS: the tensor's number in its window; `none` if the block does not have the tensor.
u32 tensor_index(const ModelConfig&, BlockKind, LayerTensor);

}  // namespace tidepool::deepseek
