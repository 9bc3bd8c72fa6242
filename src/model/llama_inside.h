// The part of a Llama-like layer that forward and recompute share, so that their bits cannot differ.
#pragma once

#include "model/block_calls.h"
#include "model/llama_layouts.h"
#include "model/llama_tensors.h"

namespace tidepool {

// `scratch` is where the adapters' products lie.
inline LlamaParams llama_params(const BlockContext& c, std::span<const std::byte* const> windows,
                                const AdapterScratch& scratch) {
  return {c.graph.config, params_of(c, windows, 0),
          Adapters(c, llama_linear_modules(c.graph.config), windows, scratch)};
}

// middle = x + o(attention(turned(qkv(norm(x))))). `norm` may be `attention`; `turned` may be `qkv` where
// heads have no norms, whose gradients need qkv as it was.
struct LlamaAttentionHalf {
  ConstValues x;      // [R, H]
  const i32* starts;  // [B, T], or null
  Values norm;        // [R, H]
  Values qkv;         // [R, A]
  Values turned;      // [R, A]
  Values attention;   // [R, Q]
  float* lse;         // [B, NH, T], or null
  Values middle;      // [R, H]
};
void llama_attention_half(const BlockContext&, const LlamaParams&, const LlamaAttentionHalf&);

// q and k with their heads' norms, turned.
Rotary rotary_of(const BlockContext&, const LlamaParams&, const i32* starts, ConstValues qkv, Values out);

// y = norm(x); rstd may be null.
struct RmsNormCall {
  ConstValues x;
  Values y;
  float* rstd = nullptr;
};
void llama_norm(const BlockContext&, const LlamaParams&, LlamaTensor weight, const RmsNormCall&);

// y = x w^T + b of weights [n, k] that begin with `weight`.
struct LlamaProduct {
  LlamaTensor weight, bias;
  u32 n, k;
  JoinedModules modules;
};
LlamaProduct qkv_product(const ModelConfig&);
LlamaProduct o_product(const ModelConfig&);
LlamaProduct gate_up_product(const ModelConfig&);
LlamaProduct down_product(const ModelConfig&);

// With the product's adapters, as below.
void llama_product(const BlockContext&, const LlamaParams&, const LlamaProduct&, ConstValues x, Values y);
// y = residual + x w^T + b
void llama_residual_product(const BlockContext&, const LlamaParams&, const LlamaProduct&, ConstValues x,
                            Values y, ConstValues residual);

}  // namespace tidepool
