// The part of a layer that forward and recompute share, so that their bits cannot differ.
#pragma once

#include "model/block_calls.h"

namespace tidepool {

// middle = x + dropout(attention(ln_1(x)) c_proj). `norm` may be `attention`.
struct AttentionHalf {
  const float* x;    // [R, H]
  float* norm;       // [R, H]
  float* qkv;        // [R, 3H]
  float* attention;  // [R, H]
  float* lse;        // [B, NH, T], or null
  float* middle;     // [R, H]
};
void attention_half(const BlockContext&, const WindowParams&, const AttentionHalf&);

enum class LayerNormSite : u8 { ln_1, ln_2 };

// y = ln(x); mean and rstd may be null.
struct NormCall {
  const float* x;
  float* y;
  float* mean = nullptr;
  float* rstd = nullptr;
};
void layer_norm_of(const BlockContext&, const WindowParams&, LayerNormSite, const NormCall&);

}  // namespace tidepool
