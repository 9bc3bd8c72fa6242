// Causal self-attention, with grouped queries (Ainslie et al., arXiv:2305.13245) and over packed documents,
// block by block with an online softmax: no T x T matrix is ever held (Milakov and Gimelshein,
// arXiv:1805.02867; Rabe and Staats, arXiv:2112.05682; Dao et al., arXiv:2205.14135).
#pragma once

#include <span>

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
  u32 heads = 0;      // NH, of queries
  u32 head_size = 0;  // D
  u32 kv_heads = 0;   // NKV, of keys and values, divides NH; 0: as many as of queries

  constexpr u32 hidden() const { return heads * head_size; }  // H
  constexpr u32 key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  // Query heads [g * group(), (g + 1) * group()) read kv head g.
  constexpr u32 group() const { return heads / key_heads(); }
  constexpr u32 key_columns() const { return key_heads() * head_size; }
  constexpr u32 qkv_columns() const { return hidden() + 2 * key_columns(); }
  constexpr u64 lse_elements() const { return u64{sequences} * heads * tokens; }
  bool operator==(const AttentionShape&) const = default;
};

// out = dropout(softmax(q k^T / sqrt(D))) v. Dropout counts elements as [B, NH, T, T].
// Documents: token t sees the keys of tokens starts[t] ... t of its sequence, 0 <= starts[t] <= t, and starts
// never fall: documents follow each other, padding is documents too. Keys that no query of a block sees are
// not read.
struct Attention {
  AttentionShape shape;
  ConstValues qkv;              // [B, T, (NH + 2 NKV) D]: q's heads, then k's, then v's
  Values out;                   // [B, T, H]
  float* lse = nullptr;         // [B, NH, T] log of the softmax's denominator, or null
  const i32* starts = nullptr;  // [B, T], or null: one document for each sequence
  Dropout dropout;
};
void attention_cpu(const Attention&, CorePool&);

// Makes the probabilities again, block by block, from q, k and lse. dk and dv of a kv head are sums over its
// query heads, in order.
struct AttentionBackward {
  AttentionShape shape;
  ConstValues qkv;              // [B, T, (NH + 2 NKV) D]
  ConstValues out;              // [B, T, H]
  const float* lse = nullptr;   // [B, NH, T]
  ConstValues dout;             // [B, T, H]
  Values dqkv;                  // [B, T, (NH + 2 NKV) D], overwritten
  const i32* starts = nullptr;  // [B, T], or null
  Dropout dropout;
  // What the caller has no use for meanwhile: may be overwritten. Its size must follow from the model and
  // the batch alone, because slices are cut by it and bits may depend on them. May be empty.
  std::span<std::byte> scratch{};
};
void attention_backward_cpu(const AttentionBackward&, CorePool&);

// What will be asked for, so that what a library compiles for it is there before the first step.
struct AttentionToCome {
  AttentionShape shape;
  Precision precision = Precision::fp32;
  Bytes scratch{};           // of backward
  bool has_backward = true;  // false: nothing is trained
};

}  // namespace tidepool
