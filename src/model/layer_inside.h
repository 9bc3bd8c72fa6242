// The part of a layer that forward and recompute share, so that their bits cannot differ.
#pragma once

#include "model/block_calls.h"

namespace tidepool {

// middle = x + dropout(attention(ln_1(x)) c_proj). `norm` may be `attention`.
struct AttentionHalf {
  ConstValues x;     // [R, H]
  Values norm;       // [R, H]
  Values qkv;        // [R, 3H]
  Values attention;  // [R, H]
  float* lse;        // [B, NH, T], or null
  Values middle;     // [R, H]
};
void attention_half(const BlockContext&, const WindowParams&, const Adapters&, const AttentionHalf&);

// pre = norm c_fc; and GELU of it in `y`, where that is not null. `pre` may be null then: it lies in `y`
// meanwhile.
struct FirstOfMlp {
  ConstValues norm;  // [R, H]
  Values pre;        // [R, I]
  Values y;          // [R, I]
};
void first_of_mlp(const BlockContext&, const WindowParams&, const Adapters&, const FirstOfMlp&);

enum class LayerNormSite : u8 { ln_1, ln_2 };

// y = ln(x); mean and rstd may be null.
struct NormCall {
  ConstValues x;
  Values y;
  float* mean = nullptr;
  float* rstd = nullptr;
};
void layer_norm_of(const BlockContext&, const WindowParams&, LayerNormSite, const NormCall&);

}  // namespace tidepool
