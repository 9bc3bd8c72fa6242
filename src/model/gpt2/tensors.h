// The tensors of a GPT-2 window, in window order.
#pragma once

#include "model/adapters.h"
#include "tidepool/model_graph.h"

namespace tidepool::gpt2 {

enum class LayerTensor : u8 {
  ln_1_weight,
  ln_1_bias,
  c_attn_weight,
  c_attn_bias,
  attn_c_proj_weight,
  attn_c_proj_bias,
  ln_2_weight,
  ln_2_bias,
  c_fc_weight,
  c_fc_bias,
  mlp_c_proj_weight,
  mlp_c_proj_bias,
};

// The linear layers, in the order of their products.
LinearModules linear_modules(const ModelConfig&, BlockKind);
namespace modules {
inline constexpr JoinedModules c_attn = {0, 1}, attn_c_proj = {1, 1}, c_fc = {2, 1}, mlp_c_proj = {3, 1};
}  // namespace modules

}  // namespace tidepool::gpt2
