// The tensors of a GPT-2 window, in window order.
#pragma once

#include "tidepool/types.h"

namespace tidepool {

enum class LayerTensor : u8 {
  ln_1_weight, ln_1_bias,
  c_attn_weight, c_attn_bias,
  attn_c_proj_weight, attn_c_proj_bias,
  ln_2_weight, ln_2_bias,
  c_fc_weight, c_fc_bias,
  mlp_c_proj_weight, mlp_c_proj_bias,
};

}  // namespace tidepool
