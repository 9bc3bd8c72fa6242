// Causal self-attention, block by block with an online softmax: no T x T matrix is ever held
// (Milakov and Gimelshein, arXiv:1805.02867; Rabe and Staats, arXiv:2112.05682; Dao et al.,
// arXiv:2205.14135).
#pragma once

#include "kernels/dropout/dropout.h"
#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Constants of the numbers: a query block meets key blocks of this width in ascending order.
inline constexpr u32 attention_query_rows = 64;
inline constexpr u32 attention_key_rows = 512;
inline constexpr u32 attention_head_size_max = 256;

struct AttentionShape {
  u32 sequences = 0;  // B
  u32 tokens = 0;     // T
  u32 heads = 0;      // NH
  u32 head_size = 0;  // D

  constexpr u32 hidden() const { return heads * head_size; }
  constexpr u64 lse_elements() const { return u64{sequences} * heads * tokens; }
  bool operator==(const AttentionShape&) const = default;
};

// out = dropout(softmax(q k^T / sqrt(D))) v. Dropout counts elements as [B, NH, T, T].
struct Attention {
  AttentionShape shape;
  ConstValues qkv;             // [B, T, 3H]: q, k, v, each [NH, D], as c_attn leaves them
  Values out;                  // [B, T, H]
  float* lse = nullptr;        // [B, NH, T] log of the softmax's denominator, or null
  Dropout dropout;
};
void attention_cpu(const Attention&, CorePool&);

// Makes the probabilities again, block by block, from q, k and lse.
struct AttentionBackward {
  AttentionShape shape;
  ConstValues qkv;              // [B, T, 3H]
  ConstValues out;              // [B, T, H]
  const float* lse = nullptr;   // [B, NH, T]
  ConstValues dout;             // [B, T, H]
  Values dqkv;                  // [B, T, 3H], overwritten
  Dropout dropout;
};
void attention_backward_cpu(const AttentionBackward&, CorePool&);

}  // namespace tidepool
