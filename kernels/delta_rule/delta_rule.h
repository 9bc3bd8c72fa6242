// The gated delta rule (Yang et al., arXiv:2412.06464) as Qwen3-Next's and Qwen3.5's layers have it: a causal
// convolution of q, k and v, a state per head that every token decays and corrects, and a norm of the output
// with a gate. A layer's projections are the columns of one array, from which each step takes its own.
//
// A head's state S [DK, DV] is zero where a document begins. With decay e^g and rate beta of a token, both of
// its head, and q and k of length 1 (q also divided by the root of DK):
//   S' = e^g S;   S = S' + k (beta (v - S'^T k))^T;   out = S^T q
// Mamba-2 (Dao and Gu, arXiv:2405.21060) has the same states without the correction, StateRule::mamba. Its B,
// C and x are k, q and v, as they are, a group of heads that share B and C is a key head, and beta is the
// token's step, which also makes the decay:
//   S = e^g S + k (beta v)^T;   out = S^T q + skip v
// Tokens are computed in chunks of delta_chunk_tokens, counted from the beginning of their document, so that
// a document's bits do not depend on what it is packed with; in a tile, of a document that began before it,
// from the tile's first row.
#pragma once

#include <limits>

#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

inline constexpr u32 delta_chunk_tokens = 64;
inline constexpr u32 delta_head_size_max = 256;
inline constexpr u32 delta_taps_max = 8;
inline constexpr float delta_length_epsilon = 1e-6f;  // added to the square of a length
inline constexpr u32 delta_group_rows = 64;  // of the gradients of a layer's small weights: rows of a sum

// How a token changes a head's state.
enum class StateRule : u8 {
  delta,  // decays it, and corrects what it holds for k
  mamba,  // decays it, and adds
};

// Value head h reads the q and k of key head h / (NV / NK).
struct DeltaShape {
  u32 sequences = 0, tokens = 0;       // B, T
  u32 key_heads = 0, value_heads = 0;  // NK, and NV, a multiple of it
  u32 key_size = 0, value_size = 0;    // DK, DV
  u32 taps = 0;                        // tokens that the convolution sees, the last is the own
  bool by_key_head = false;            // order of the projections' columns
  StateRule rule{};
  // Rows may be a tile of one sequence: its tokens before the first row, and whether it has some behind the
  // last. Positions of documents count from the beginning of the sequence.
  u32 first_token = 0;
  bool goes_on = false;

  constexpr bool corrects() const { return rule == StateRule::delta; }
  constexpr u32 rows() const { return sequences * tokens; }
  constexpr u32 heads_per_key() const { return value_heads / key_heads; }
  constexpr u32 key_columns() const { return key_heads * key_size; }
  constexpr u32 value_columns() const { return value_heads * value_size; }
  // C: the convolution's channels, all heads of q, then of k, then of v; Mamba-2: of v, then of k, then of q.
  constexpr u32 channels() const { return 2 * key_columns() + value_columns(); }
  constexpr u32 q_channels() const { return corrects() ? 0 : value_columns() + key_columns(); }
  constexpr u32 k_channels() const { return corrects() ? key_columns() : value_columns(); }
  constexpr u32 v_channels() const { return corrects() ? 2 * key_columns() : 0; }
  // Values by head and token that make its rates: b and a; Mamba-2: the step.
  constexpr u32 rates() const { return corrects() ? 2 : 1; }
  // N: columns of the projections.
  constexpr u32 columns() const { return channels() + value_columns() + rates() * value_heads; }

  // First columns of a head's q, k, v, z, rate b and decay a in a row of the projections: all heads of each
  // in this order; or by_key_head: of each key head its q, k, v's and z's, then of each its b's and its a's;
  // Mamba-2: z, v, k, q, and the step, which is both b and a.
  constexpr u32 q(u32 key_head) const {
    if (!corrects()) return convolved() + q_channels() + key_head * key_size;
    return by_key_head ? key_head * group() : key_head * key_size;
  }
  constexpr u32 k(u32 key_head) const {
    if (!corrects()) return convolved() + k_channels() + key_head * key_size;
    return q(key_head) + (by_key_head ? key_size : key_columns());
  }
  constexpr u32 v(u32 head) const {
    if (!by_key_head) return convolved() + v_channels() + head * value_size;
    return q(head / heads_per_key()) + 2 * key_size + head % heads_per_key() * value_size;
  }
  constexpr u32 z(u32 head) const {
    if (!corrects()) return head * value_size;
    return v(head) + (by_key_head ? heads_per_key() * value_size : value_columns());
  }
  constexpr u32 b(u32 head) const {
    const u32 begin = channels() + value_columns(), each = heads_per_key();
    return begin + (by_key_head ? head / each * 2 * each + head % each : head);
  }
  constexpr u32 a(u32 head) const {
    if (!corrects()) return b(head);
    return b(head) + (by_key_head ? heads_per_key() : value_heads);
  }
  // The first of the projections' columns that the convolution reads, if they are side by side.
  constexpr u32 convolved() const { return corrects() ? 0 : value_columns(); }
  // Columns of z that GroupNorm normalises together.
  constexpr u32 group_columns() const { return heads_per_key() * value_size; }
  bool operator==(const DeltaShape&) const = default;

 private:
  constexpr u32 group() const { return 2 * key_size + 2 * heads_per_key() * value_size; }
};

// y = silu(convolution of q, k and v). Tokens before the document count as zeros.
struct DeltaConvolution {
  DeltaShape shape;
  ConstValues projected;        // [R, N]
  Param weight;                 // [C, taps]
  const i32* starts = nullptr;  // [R], or null
  Values y;                     // [R, C]
  Param bias = {};              // [C], or none
};
void delta_convolution_cpu(const DeltaConvolution&, CorePool&);

struct DeltaConvolutionBackward {
  DeltaShape shape;
  ConstValues projected;  // [R, N]
  Param weight;
  Param bias = {};
  const i32* starts = nullptr;
  ConstValues dy;             // [R, C]
  Values dprojected;          // [R, N]: columns of q, k and v are overwritten
  float* dweight = nullptr;   // [C, taps], or null
  float* dbias = nullptr;     // [C], or null; REQUIRES: null if dweight or bias is
  bool accumulate = true;     // for both; false: overwrite
  float* partials = nullptr;  // workspace, [delta_partials()]
};
void delta_convolution_backward_cpu(const DeltaConvolutionBackward&, CorePool&);

// Bounds of Mamba-2's steps. A step beyond one has no gradient.
struct StepLimits {
  float least = 0, most = std::numeric_limits<float>::infinity();
};

// beta = logistic(b); g = -e^a_log softplus(a + dt_bias). Mamba-2: beta = softplus(a + dt_bias), within the
// limits; g = -e^a_log beta.
struct GatedDelta {
  DeltaShape shape;
  ConstValues qkv;        // [R, C]: after the convolution
  ConstValues projected;  // [R, N]
  Param a_log, dt_bias;   // [NV]
  const i32* starts = nullptr;
  Values out;       // [R, NV DV]
  Param skip = {};  // [NV]: Mamba-2 only, as `steps`
  StepLimits steps = {};
  const float* state_before = nullptr;  // [NV, DK, DV]: of a tile that is not the first of its sequence
  float* state_after = nullptr;         // [NV, DK, DV]: of one that is not the last
};
void gated_delta_cpu(const GatedDelta&, CorePool&);

struct GatedDeltaBackward {
  DeltaShape shape;
  ConstValues qkv, projected;
  Param a_log, dt_bias;
  Param skip = {};
  StepLimits steps = {};
  const i32* starts = nullptr;
  ConstValues dout;                              // [R, NV DV]
  Values dqkv;                                   // [R, C]
  Values dprojected;                             // [R, N]: columns of b and a are overwritten
  float *da_log = nullptr, *ddt_bias = nullptr;  // [NV], or null together
  float* dskip = nullptr;                        // [NV], as they; Mamba-2 only
  bool accumulate = true;
  float* partials = nullptr;  // workspace, [delta_partials()]
  float* states = nullptr;    // workspace, [delta_states()]
  // As in GatedDelta, and their gradients. Another place for each: one is read when the other was written.
  const float *state_before = nullptr, *dstate_after = nullptr;
  float* dstate_before = nullptr;
};
void gated_delta_backward_cpu(const GatedDeltaBackward&, CorePool&);

// y = weight x / rms(x) silu(z), for each head.
struct GatedNorm {
  DeltaShape shape;
  ConstValues x;          // [R, NV DV]
  ConstValues projected;  // [R, N]
  Param weight;           // [DV]
  float epsilon = 1e-6f;
  Values y;  // [R, NV DV]
};
void gated_norm_cpu(const GatedNorm&, CorePool&);

struct GatedNormBackward {
  DeltaShape shape;
  ConstValues x, projected;
  Param weight;
  float epsilon = 1e-6f;
  ConstValues dy;
  Values dx;          // may be dy
  Values dprojected;  // [R, N]: columns of z are overwritten
  float* dweight = nullptr;
  bool accumulate = true;
  float* partials = nullptr;  // workspace, [delta_partials()]
};
void gated_norm_backward_cpu(const GatedNormBackward&, CorePool&);

// Mamba-2's norm: y = weight h / rms(h), with h = x silu(z), over the group_columns() of each key head.
struct GroupNorm {
  DeltaShape shape;
  ConstValues x;          // [R, NV DV]
  ConstValues projected;  // [R, N]
  Param weight;           // [NV DV]
  float epsilon = 1e-5f;
  Values y;  // [R, NV DV]
};
void group_norm_cpu(const GroupNorm&, CorePool&);

struct GroupNormBackward {
  DeltaShape shape;
  ConstValues x, projected;
  Param weight;
  float epsilon = 1e-5f;
  ConstValues dy;
  Values dx;          // may be dy
  Values dprojected;  // [R, N]: columns of z are overwritten
  float* dweight = nullptr;
  bool accumulate = true;
  float* partials = nullptr;  // workspace, [delta_partials()]
};
void group_norm_backward_cpu(const GroupNormBackward&, CorePool&);

// Gradients that each head has one of: of a_log, dt_bias, and Mamba-2's skip.
constexpr u32 delta_head_sums(const DeltaShape& s) { return s.corrects() ? 2 : 3; }

// Floats of a backward's sums. Each group of rows sums its share of a weight's gradient, and groups are
// summed in order. For weights that each head has one of, the CPU has a sum for each sequence, a GPU one for
// each group. A GPU's GroupNorm also has two numbers by row and key head.
constexpr u64 delta_partials(const DeltaShape& s) {
  const u64 groups = u64{s.sequences} * div_up(s.tokens, delta_group_rows);
  const u64 of_channels = u64{s.channels()} * (s.taps + (s.corrects() ? 0 : 1)),
            of_heads = delta_head_sums(s) * u64{s.value_heads};
  const u64 most = of_channels > of_heads ? of_channels : of_heads;
  const u64 of_norm = s.corrects() ? 0 : 2 * u64{s.rows()} * s.key_heads;
  return groups * (most > s.value_size ? most : s.value_size) + of_norm;
}

// Workspace of the rule's backward, for `heads` value heads at a time of each key head, HN of them in all.
// Boundaries between chunks of a document are at least a chunk apart, and number b has its slot in the order
// of tokens.
//   states      [B, HN, slots, DK, DV]   at every boundary
// A GPU also keeps the rest. It goes back by segments, so that only `states` and `corrections` grow with T:
// for HN = 16 and DK = DV = 128 these take 16 and 8 KiB a token, the others 25 MiB a sequence.
//   gradients   [B, HN, ring, DK, DV]    of the states, at the boundaries of a segment; b has slot b % ring
//   corrections [B, T, HN, DV]           X of delta_block.cuh; Mamba-2 has none
//   solutions   [B, rows, HN, DV]        Y of the gradients, of a segment; token t has row t % rows
inline constexpr u32 delta_segment_tokens = 1024;
// Value heads of a key head whose chunks are walked at once. Few groups of heads would leave a GPU idle:
// Mamba-2 takes as many heads of each as make 32, of what divides their number. The delta rule's models have
// 16 key heads.
constexpr u32 delta_heads_at_once(const DeltaShape& s) {
  constexpr u32 wanted = 32;
  if (s.corrects()) return 1;
  u32 heads = 1;
  for (u32 more = 2; more <= s.heads_per_key() && more * s.key_heads <= wanted; ++more)
    if (s.heads_per_key() % more == 0) heads = more;
  return heads;
}
constexpr u64 delta_state_slots(const DeltaShape& s) {
  return s.tokens == 0 ? 0 : (s.tokens - 1) / delta_chunk_tokens;
}
constexpr u64 delta_gradient_slots(const DeltaShape& s) {
  constexpr u64 most = delta_segment_tokens / delta_chunk_tokens + 1;  // both ends
  return delta_state_slots(s) < most ? delta_state_slots(s) : most;
}
// A segment's last chunk may end behind it.
constexpr u64 delta_solution_rows(const DeltaShape& s) {
  constexpr u64 most = delta_segment_tokens + delta_chunk_tokens;
  return s.tokens < most ? s.tokens : most;
}
constexpr u64 delta_states(const DeltaShape& s) {
  const u64 slots = delta_state_slots(s) + delta_gradient_slots(s),
            rows = (s.corrects() ? s.tokens : 0) + delta_solution_rows(s);
  return u64{s.sequences} * s.key_heads * delta_heads_at_once(s) * s.value_size * (slots * s.key_size + rows);
}

}  // namespace tidepool
