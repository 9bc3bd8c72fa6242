// Assembles the rows of latent attention: q, k and v of each head from the products of two latents, with the
// last columns of q's and k's heads rotated by position, and back. CopyColumns takes the latent of k and v
// out of the rows in which it comes, and puts its gradient back.
#pragma once

#include "kernels/rotary/rotary.h"

namespace tidepool {

inline constexpr u32 latent_group_rows = 32;

// A head of q and k has `qk_nope_head_dim` columns without positions, then `qk_rope_head_dim` columns with
// them.
struct LatentShape {
  u32 rows = 0;    // R = B T
  u32 tokens = 0;  // T: row r is token first_token + r % T of its sequence
  u32 first_token = 0;
  u32 heads = 0;             // NH
  u32 kv_lora_rank = 0;      // columns of the latent of k and v
  u32 qk_nope_head_dim = 0;  // P
  u32 qk_rope_head_dim = 0;  // U, even, at most 2 rotary_pairs_max
  u32 v_head_dim = 0;        // V, columns of a head of v
  // Pair i is column 2i with 2i + 1; otherwise i with i + U / 2. The rotated pair is in columns i and i + U /
  // 2 in both cases: scores do not depend on the order of columns.
  bool interleaved = false;
  float factor = 1;  // on cosine and sine

  constexpr u32 q_columns() const { return heads * (qk_nope_head_dim + qk_rope_head_dim); }
  constexpr u32 kv_columns() const { return heads * (qk_nope_head_dim + v_head_dim); }
  constexpr u32 low_columns() const { return kv_lora_rank + qk_rope_head_dim; }
  constexpr u32 columns() const { return 2 * q_columns() + heads * v_head_dim; }
  bool operator==(const LatentShape&) const = default;
};

// A row's position is as in Rotary. All heads of k share their rotated columns.
struct LatentRows {
  LatentShape shape;
  ConstValues q;                // [R, NH (P + U)]
  ConstValues kv;               // [R, NH (P + V)]: per head the plain columns of k, then v
  ConstValues low;              // [R, rank + U]: the latent, which is not read, then the rotated columns of k
  Values out;                   // [R, NH (P + U) + NH (P + U) + NH V]: q's heads, then k's, then v's
  const i32* starts = nullptr;  // [R], or null
  RotaryFrequencies inverse_frequencies = {};  // [U / 2]
};
void latent_rows_cpu(const LatentRows&, CorePool&);

// The gradient of k's rotated columns is the sum over heads, in order.
struct LatentRowsBackward {
  LatentShape shape;
  ConstValues dout;             // [R, NH (P + U) + NH (P + U) + NH V]
  Values dq;                    // [R, NH (P + U)], overwritten
  Values dkv;                   // [R, NH (P + V)], overwritten
  Values dlow;                  // [R, rank + U]: the last U columns are overwritten, the latent's unchanged
  const i32* starts = nullptr;  // [R], or null
  RotaryFrequencies inverse_frequencies = {};
};
void latent_rows_backward_cpu(const LatentRowsBackward&, CorePool&);

// The first `columns` columns of each row of y = those of x. x may have any precision.
struct CopyColumns {
  u32 rows = 0, columns = 0;
  ConstValues x;  // [rows, x_stride]
  u32 x_stride = 0;
  Values y;  // [rows, y_stride]
  u32 y_stride = 0;
  bool add = false;  // y += x; both have the same precision
};
void copy_columns_cpu(const CopyColumns&, CorePool&);

}  // namespace tidepool
