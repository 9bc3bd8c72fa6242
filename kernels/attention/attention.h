// Causal self-attention with grouped queries (Ainslie et al., arXiv:2305.13245) and packed documents. It
// works block by block with an online softmax and never holds a T x T matrix (Milakov and Gimelshein,
// arXiv:1805.02867; Rabe and Staats, arXiv:2112.05682; Dao et al., arXiv:2205.14135).
#pragma once

#include <cmath>
#include <span>

#include "kernels/dropout/dropout.h"
#include "kernels/values.h"
#include "tidepool/batch_arrays.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// These constants affect the bits: a query block visits key blocks of this width in ascending order.
inline constexpr u32 attention_query_rows = 64;
inline constexpr u32 attention_key_rows = 512;
inline constexpr u32 attention_head_size_max = 512;

struct AttentionShape {
  u32 sequences = 0;      // B
  u32 tokens = 0;         // T
  u32 heads = 0;          // NH, query heads
  u32 head_size = 0;      // D, columns of a head of q and k
  u32 kv_heads = 0;       // NKV, heads of keys and values, divides NH; 0: NKV = NH
  u32 scale_size = 0;     // S: scores are divided by its root; 0: D
  u32 window = 0;         // W: tokens that a token attends to at most, itself included; 0: no limit
  u32 value_size = 0;     // V, columns of a head of v and out; 0: D
  float scale_given = 0;  // factor on scores; 0: 1 / sqrt(S)
  float cap = 0;          // scores s, after their factor, count as cap tanh(s / cap); 0: none

  constexpr u32 value_head_size() const { return value_size == 0 ? head_size : value_size; }
  constexpr u32 query_columns() const { return heads * head_size; }
  constexpr u32 out_columns() const { return heads * value_head_size(); }
  constexpr u32 key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  // Query heads [g * group(), (g + 1) * group()) read kv head g.
  constexpr u32 group() const { return heads / key_heads(); }
  constexpr u32 key_columns() const { return key_heads() * head_size; }
  constexpr u32 value_columns() const { return key_heads() * value_head_size(); }
  constexpr u32 qkv_columns() const { return query_columns() + key_columns() + value_columns(); }
  constexpr u64 lse_elements() const { return u64{sequences} * heads * tokens; }
  float scale() const {
    if (scale_given != 0) return scale_given;
    return 1.0f / std::sqrt(static_cast<float>(scale_size != 0 ? scale_size : head_size));
  }
  // RETURNS: the cap of scores before their factor: scale() times the capped value is the capped score.
  float raw_cap() const { return cap / scale(); }
  // RETURNS: the first token that token t attends to, if its document begins at `start`. Never decreases with
  // t.
  constexpr u32 first_seen(u32 t, u32 start) const {
    return window != 0 && t >= start + window ? t + 1 - window : start;
  }
  bool operator==(const AttentionShape&) const = default;
};

// The queries are a tile of a longer sequence: those of tokens [first, first + shape.tokens), which see keys
// of the tokens before them too. Blocks of keys end where tiles end.
struct AttentionTile {
  ConstValues past;  // [first + T, NKV D + NKV V]: k's heads and v's of the sequence's tokens; none: no tile
  u32 first = 0;
  u32 tile_tokens = 0;  // of all tiles but the last
};

// out = dropout(softmax(scale q k^T)) v. A head with a sink has one more score, its sink, in each row's
// maximum and sum; no key and no value belong to it, so the probabilities' sum is below 1 (gpt-oss; Xiao et
// al., arXiv:2309.17453). Sinks are not scaled, and caps, masks and dropout do not concern them. Dropout
// numbers elements as [B, NH, T, keys]. Documents: token t attends to tokens starts[t] ... t of its sequence,
// 0 <= starts[t] <= t. starts never decrease: documents follow each other, and padding consists of documents
// too. A token with a hole (KeyHole) does not attend to the places in it. With a window, it attends to no
// token before t - W + 1 (Beltagy et al., arXiv:2004.05150). Keys that no query of a block attends to are not
// read.
struct Attention {
  AttentionShape shape;         // of a tile: B = 1, and T its tokens
  AttentionTile tile;           // or none
  ConstValues qkv;              // [B, T, (NH + NKV) D + NKV V]: q's heads, then k's, then v's
  Values out;                   // [B, T, NH V]
  float* lse = nullptr;         // [B, NH, T] logarithm of the softmax's denominator, sink included, or null
  const i32* starts = nullptr;  // [B, T], or null: each sequence is one document
  const KeyHole* holes = nullptr;  // [B, T], or null: there are none. Not with a window shorter than T
  Dropout dropout;
  Param sinks;  // [NH], or none
};
void attention_cpu(const Attention&, CorePool&);

// Recomputes probabilities, block by block, from q, k and lse. dk and dv of a kv head are sums over its query
// heads, in order. dsink = -sum over the head's rows of exp(sink - lse) (dout . out), in fixed order.
struct AttentionBackward {
  AttentionShape shape;
  AttentionTile tile;              // or none
  ConstValues qkv;                 // [B, T, (NH + NKV) D + NKV V]
  ConstValues out;                 // [B, T, NH V]
  const float* lse = nullptr;      // [B, NH, T]
  ConstValues dout;                // [B, T, NH V]
  Values dqkv;                     // [B, T, (NH + NKV) D + NKV V], overwritten; of a tile q's columns only
  float* dpast = nullptr;          // of a tile: like its past; added to
  const i32* starts = nullptr;     // [B, T], or null
  const KeyHole* holes = nullptr;  // [B, T], or null
  Dropout dropout;
  // Memory that may be overwritten; may be empty. Its size must follow from the model and the batch alone,
  // because it determines the slices, and bits may depend on slices.
  std::span<std::byte> scratch{};
  Param sinks;              // [NH]; needed for dsinks only, because lse includes them
  float* dsinks = nullptr;  // [NH], or null: frozen
  bool accumulate = true;   // for dsinks; false: overwrite
};
void attention_backward_cpu(const AttentionBackward&, CorePool&);

// A run's attention, announced so that a library compiles its kernels before the first step.
struct AttentionToCome {
  AttentionShape shape;
  Precision precision = Precision::fp32;
  Bytes scratch{};           // scratch of backward
  bool has_backward = true;  // false: no training
};

}  // namespace tidepool
