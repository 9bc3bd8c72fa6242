// Prepares q and k for attention: normalises each head if the model does so (Qwen3, Gemma), then rotates it
// by its position (Su et al., arXiv:2104.09864), in the layout of Hugging Face's weights: element i rotates
// with element i + D / 2, or neighbours rotate together (Ernie 4.5). v is copied unchanged, or normalised
// (Gemma 4). The heads of q may come with gates between them (Qwen3-Next), which stay behind.
#pragma once

#include <array>

#include "kernels/values.h"
#include "tidepool/batch_arrays.h"
#include "tidepool/core_pool.h"

namespace tidepool {

inline constexpr u32 rotary_group_rows = 32;
inline constexpr u32 rotary_pairs_max = 256;  // pairs of a head: D / 2

// Angle of pair i, in radians per position. Passed by value, so that a GPU needs no table in its memory.
using RotaryFrequencies = std::array<float, rotary_pairs_max>;

// Heads of v in the output.
enum class RotaryValues : u8 {
  copied,
  normalised,       // over each head, without a weight; only with norms of q and k
  given,            // k and v of the output are there, and the input has neither
  normalised_keys,  // k before its norm and rotation is v too, which the input does not have; then normalised
};

struct RotaryShape {
  u32 rows = 0;    // R = B T
  u32 tokens = 0;  // T: row r is token first_token + r % T of its sequence
  u32 first_token = 0;
  u32 heads = 0;      // NH
  u32 kv_heads = 0;   // NKV
  u32 head_size = 0;  // D, at most 2 rotary_pairs_max
  // Number of elements at the start of a head that are rotated, even: element i rotates with element i +
  // rotated() / 2, and the rest of the head is not rotated. 0: all. Norms are over the whole head.
  u32 rotated_size = 0;
  // Elements from a head of q to the next in qkv; 0: D. With 2 D each head of q is followed by a gate, which
  // is not read.
  u32 query_stride = 0;
  float factor = 1;  // on cosine and sine, as YaRN has it
  // Elements 2i and 2i + 1 rotate together instead.
  bool neighbours = false;
  // Not 0: q is multiplied by 1 + query_growth log(1 + floor(position / query_period)), as in Ministral 3.
  float query_growth = 0;
  u32 query_period = 1;
  RotaryValues values{};

  constexpr u32 q_stride() const { return query_stride != 0 ? query_stride : head_size; }
  // Heads of k that are normalised or rotated.
  constexpr u32 key_heads() const { return values == RotaryValues::given ? 0 : kv_heads; }
  constexpr bool keys_are_values() const { return values == RotaryValues::normalised_keys; }
  // Columns of a row of qkv: q's heads at their stride, then k's, then v's unless they are k's.
  constexpr u32 in_columns() const {
    const u32 parts = values == RotaryValues::given ? 0 : keys_are_values() ? 1 : 2;
    return heads * q_stride() + parts * kv_heads * head_size;
  }
  // Columns of a row of the output: q's heads, then k's, then v's.
  constexpr u32 columns() const { return (heads + 2 * kv_heads) * head_size; }
  constexpr u32 rotated() const { return rotated_size != 0 ? rotated_size : head_size; }
  bool operator==(const RotaryShape&) const = default;
};

// A row's position is its token's number in the sequence, minus that of its document's first token if
// `starts` is given, and minus the length of its hole if `holes` is. The angle is position * frequency,
// rounded to fp32 once.
struct Rotary {
  RotaryShape shape;
  ConstValues qkv;                 // [R, in_columns()]
  Values out;                      // [R, columns()]; may be qkv if in_columns() are as many
  const i32* starts = nullptr;     // [R]: number in the sequence of the document's first token; or null
  const KeyHole* holes = nullptr;  // [R], or null
  RotaryFrequencies inverse_frequencies = {};  // [rotated() / 2]
  Param q_norm, k_norm;   // [D]: weights of an RMS norm over each head, before rotation; or none. Without
                          // heads of k that of q alone
  float norm_offset = 0;  // added to these weights: 1 in Gemma and Qwen3-Next
  float epsilon = 1e-6f;  // for these norms
};
void rotary_cpu(const Rotary&, CorePool&);

struct RotaryBackward {
  RotaryShape shape;
  ConstValues qkv;  // [R, in_columns()] before norms and rotation; none without norms
  Values dqkv;      // [R, columns()]: gradient of the output; overwritten only if `dx` is none or this array
  // [R, in_columns()]: gradient of the input; may be qkv. None: dqkv, in place, if in_columns() are as many
  // as columns(). Gates' columns keep what they hold.
  Values dx;
  const i32* starts = nullptr;     // [R], or null
  const KeyHole* holes = nullptr;  // [R], or null
  RotaryFrequencies inverse_frequencies = {};
  Param q_norm, k_norm;
  float norm_offset = 0;
  float epsilon = 1e-6f;
  float* dq_norm = nullptr;   // [D], or null together with dk_norm; this and the next fields only with norms
  float* dk_norm = nullptr;   // [D]
  bool accumulate = true;     // for dq_norm and dk_norm; false: overwrite
  float* partials = nullptr;  // workspace, [rotary_partials(R, D)]
};
void rotary_backward_cpu(const RotaryBackward&, CorePool&);

// Each group of rows sums its share of dq_norm and dk_norm, heads in order; the groups are then summed in
// order.
constexpr u64 rotary_partials(u64 rows, u64 head_size) {
  return div_up(rows, rotary_group_rows) * 2 * head_size;
}

}  // namespace tidepool
