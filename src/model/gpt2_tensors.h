// The tensors of a GPT-2 window, in window order.
#pragma once

#include "kernels/values.h"
#include "tidepool/check.h"
#include "tidepool/model_graph.h"

namespace tidepool {

enum class LayerTensor : u8 {
  ln_1_weight, ln_1_bias,
  c_attn_weight, c_attn_bias,
  attn_c_proj_weight, attn_c_proj_bias,
  ln_2_weight, ln_2_bias,
  c_fc_weight, c_fc_bias,
  mlp_c_proj_weight, mlp_c_proj_bias,
};
enum class NormTensor : u8 { weight, bias };  // of window "ln_f"

// Parameters of a window in device memory.
struct WindowParams {
  const Window& window;
  Precision precision;
  const std::byte* data;

  template <class E>
  Param operator[](E tensor) const {
    return Param{data, precision}.at(window.tensors[static_cast<u32>(tensor)].window_offset);
  }
};

// Accumulators of a window: fp32, in its layout.
struct WindowGradients {
  const Window& window;
  float* data;

  template <class E>
  float* operator[](E tensor) const {
    return data + window.tensors[static_cast<u32>(tensor)].window_offset;
  }
};

}  // namespace tidepool
