// A chunk of one value head of the gated delta rule in a block of threads. Names of arrays are those of
// delta_head.h, with one change: X is the correction of the rule, W = beta X what it adds to the state,
//   X = U - B W;   U = V - e^G K S
// so that the gradient of beta needs no division. B and P share an array `pairs` of a chunk's tokens by
// tokens: B[i, j] (i > j) below the diagonal, and P[i, j] (i >= j) at [j, i].
// Rows at or above the chunk's count are zero, with beta = 0 and g = 0, and change nothing. Mamba-2 has no
// corrections: X = V and B = 0.
#pragma once

#include "kernels/cuda/device_param.h"
#include "kernels/delta_rule/delta_chunk.h"
#include "kernels/delta_rule/delta_place.h"
#include "kernels/delta_rule/delta_tiles.cuh"

namespace tidepool::cuda {

inline constexpr u32 delta_n = delta_chunk_tokens;

// All kernels of the rule read these.
template <class T>
struct DeltaArrays {
  DeltaShape shape;
  const T *qkv, *projected;
  DeviceParam a_log, dt_bias;
  DeviceParam skip;  // Mamba-2 only, as `steps`
  StepLimits steps;
  const i32* starts;  // or null
  const float* state_before;
  bool whole;  // rows of q, k, v and of a head's output are read 16 bytes at a time
};

// A chunk's arrays in shared memory.
struct alignas(16) DeltaBlock {
  float g[delta_n], beta[delta_n];
  float gamma[delta_n];   // e^G
  float to_end[delta_n];  // e^(G[last] - G)
  // 1 / length; q's also divided by the root of DK. Not used by Mamba-2.
  float q_factor[delta_n], k_factor[delta_n];
  float pairs[delta_pairs_floats];
  DeltaStages stages;
};
static_assert(sizeof(DeltaBlock) == 4 * delta_block_floats);

__device__ __forceinline__ u32 pair_at(u32 row, u32 column) { return row * delta_pairs_pitch + column; }

// RETURNS: the chunk that holds a token, as delta_chunk_at().
// REQUIRES: every lane of the warp calls it.
__device__ __forceinline__ DeltaChunk delta_chunk_here(const DeltaShape& s, const i32* starts, u32 token) {
  const auto [document, begun_before] = delta_document(s, starts, token);
  const u32 begin = document + (token - document) / delta_n * delta_n;
  const auto is_same = [&](u32 t) {
    return t < s.tokens && (starts == nullptr || starts[t] == starts[token]);
  };
  u32 count = 0;  // a document's tokens are neighbours
  for (u32 part = 0; part < delta_n; part += warp_threads)
    count += static_cast<u32>(__popc(__ballot_sync(all_lanes, is_same(begin + part + lane_index()))));
  const u32 end = begin + count;
  return {.begin = begin,
          .count = count,
          .first = begin == document && !begun_before,
          .last = !is_same(end) && !(end == s.tokens && s.goes_on)};
}

// Eight elements of a row of n; zero at or above n. `whole`: as for load8, known at run time.
template <class T>
__device__ __forceinline__ void load_eight(const T* row, u32 at, u32 n, bool whole, float (&v)[8]) {
  if (whole && at < n) {
    load8<true>(row, at, n, v);
  } else {
    load8<false>(row, at, n, v);
  }
}
__device__ __forceinline__ void scale_eight(float (&v)[8], float factor) {
  UNROLL for (u32 i = 0; i < 8; ++i) v[i] *= factor;
}
__device__ __forceinline__ void zero_eight(float (&v)[8]) { UNROLL for (u32 i = 0; i < 8; ++i) v[i] = 0.0f; }

// RETURNS: the step that a projected value gives.
__device__ __forceinline__ float softplus_of(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// One chunk's rows of q and k.
template <StateRule rule, class T>
struct DeltaRows {
  const DeltaArrays<T>& in;
  const DeltaPlace place;
  DeltaChunk chunk;
  DeltaBlock& s;

  // Eight elements of a token's q or k of length 1.
  __device__ __forceinline__ void q(u32 i, u32 column, float (&v)[8]) const {
    unit(in.qkv + place.q(chunk.begin + i), s.q_factor, i, column, v);
  }
  __device__ __forceinline__ void k(u32 i, u32 column, float (&v)[8]) const {
    unit(in.qkv + place.k(chunk.begin + i), s.k_factor, i, column, v);
  }

  // Fills everything of the block that has a value by token. Ends with a barrier; the one before it is the
  // caller's.
  __device__ __forceinline__ void make_gates() const {
    const u32 i = threadIdx.x;
    if (i < delta_n) {
      s.beta[i] = s.g[i] = 0.0f;
      if (i < chunk.count) {
        const u32 token = chunk.begin + i;
        const float step = softplus_of(widened(in.projected[place.a(token)]) + in.dt_bias.at(place.head));
        s.beta[i] = corrects ? 1.0f / (1.0f + expf(-widened(in.projected[place.b(token)]))) : bounded(step);
        s.g[i] = -expf(in.a_log.at(place.head)) * (corrects ? step : s.beta[i]);
      }
    }
    if (corrects) make_lengths();
    __syncthreads();
    if (i < delta_n) {
      float sum = 0;
      for (u32 j = 0; j <= i; ++j) sum += s.g[j];
      s.gamma[i] = expf(sum);
    } else if (i < 2 * delta_n) {
      float sum = 0;
      for (u32 j = i - delta_n + 1; j < delta_n; ++j) sum += s.g[j];
      s.to_end[i - delta_n] = expf(sum);
    }
    __syncthreads();
  }

 private:
  static constexpr bool corrects = rule == StateRule::delta;

  // Comparisons are false for NaN, so NaN stays NaN.
  __device__ __forceinline__ float bounded(float step) const {
    return step < in.steps.least ? in.steps.least : step > in.steps.most ? in.steps.most : step;
  }
  __device__ __forceinline__ void make_lengths() const {
    const float scale = 1.0f / sqrtf(static_cast<float>(in.shape.key_size));
    for (u32 row = warp_index(); row < delta_n; row += delta_threads / warp_threads) {
      if (row >= chunk.count) continue;
      const float of_q = length_factor(in.qkv + place.q(chunk.begin + row)),
                  of_k = length_factor(in.qkv + place.k(chunk.begin + row));
      if (lane_index() == 0) s.q_factor[row] = scale * of_q, s.k_factor[row] = of_k;
    }
  }
  __device__ __forceinline__ void unit(const T* row, const float* factors, u32 i, u32 column,
                                       float (&v)[8]) const {
    if (i >= chunk.count) return zero_eight(v);
    load_eight(row, column, in.shape.key_size, in.whole, v);
    if (corrects) scale_eight(v, factors[i]);
  }
  __device__ __forceinline__ float length_factor(const T* row) const {
    float square = 0;
    for (u32 c = lane_index(); c < in.shape.key_size; c += warp_threads) {
      const float x = widened(row[c]);
      square = fmaf(x, x, square);
    }
    return 1.0f / sqrtf(warp_sum(square) + delta_length_epsilon);
  }
};

// pairs[i, j] = D[i, j] = e^(g[j + 1] + ... + g[i]) below the diagonal. Each span is summed by itself: a
// difference of sums from the chunk's beginning would lose the digits of short spans behind long ones. A
// thread has a quarter of a column's rows.
__device__ __forceinline__ void make_decays(DeltaBlock& s) {
  constexpr u32 rows = delta_n / (delta_threads / delta_n);
  const u32 j = threadIdx.x % delta_n, begin = threadIdx.x / delta_n * rows;
  float span = 0;
  for (u32 i = j + 1; i < begin + rows; ++i) {
    span += s.g[i];
    if (i >= begin) s.pairs[pair_at(i, j)] = expf(span);
  }
}

// Sums of B and P before their decays. A thread's 4 x 4 elements are all below the diagonal, which are B's,
// or all above, which are P's; of those on it, it has B's, and each of the block's threads one element of P.
template <StateRule rule>
struct PairSums {
  DeltaTile sums = {};
  float on_diagonal = 0;

  // Row and column of P's element on the diagonal's tiles.
  static __device__ __forceinline__ u32 diagonal_row() { return threadIdx.x / 16 * 4 + threadIdx.x % 16 / 4; }
  static __device__ __forceinline__ u32 diagonal_column() { return threadIdx.x / 16 * 4 + threadIdx.x % 4; }

  // Adds 32 columns of K and Q, both [64, 32].
  __device__ __forceinline__ void add(const float* k, const float* q) {
    const bool of_p = delta_row() < delta_column();
    if (of_p || rule == StateRule::delta) multiply_rows(sums, k, of_p ? q : k, delta_row(), delta_column());
    if (diagonal_row() < diagonal_column()) return;
    for (u32 c = 0; c < delta_step; c += 4) {
      float a[4], b[4];
      load4(q + staged(diagonal_row(), c), a);
      load4(k + staged(diagonal_column(), c), b);
      UNROLL for (u32 i = 0; i < 4; ++i) on_diagonal = fmaf(a[i], b[i], on_diagonal);
    }
  }
  // pairs = B and P, from the decays that are there. Ends with a barrier.
  // REQUIRES: a barrier since the decays.
  __device__ __forceinline__ void store(DeltaBlock& s) {
    const u32 row = delta_row(), column = delta_column(), i = diagonal_row(), j = diagonal_column();
    UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) {
      if (row + a > column + b) sums[a][b] *= s.pairs[pair_at(row + a, column + b)];
      if (row < column) sums[a][b] *= s.pairs[pair_at(column + b, row + a)];
    }
    if (i > j) on_diagonal *= s.pairs[pair_at(i, j)];
    __syncthreads();
    UNROLL for (u32 a = 0; a < 4; ++a) {
      if (row != column) store4(s.pairs + pair_at(row + a, column), sums[a]);
      UNROLL for (u32 b = 0; b < a; ++b) {
        if (row == column) s.pairs[pair_at(row + a, column + b)] = sums[a][b];
      }
    }
    if (i >= j) s.pairs[pair_at(j, i)] = on_diagonal;
    __syncthreads();
  }
};

// Fills the block for a chunk. Calls each(column) for every 32 columns of Q and K, which are in the stages
// then: K at the left, Q at the right. `reads_q`: otherwise P is left out.
template <bool reads_q, StateRule rule, class T, class Each>
__device__ __forceinline__ void make_pairs(const DeltaRows<rule, T>& rows, Each each) {
  DeltaBlock& s = rows.s;
  rows.make_gates();
  make_decays(s);
  PairSums<rule> pairs;
  KEEP_ROLLED for (u32 column = 0; column < rows.in.shape.key_size; column += delta_step) {
    stage_rows(s.stages.left, [&](u32 i, u32 k, float(&v)[8]) { rows.k(i, column + k, v); });
    if (reads_q) stage_rows(s.stages.right, [&](u32 i, u32 k, float(&v)[8]) { rows.q(i, column + k, v); });
    __syncthreads();
    pairs.add(s.stages.left, reads_q ? s.stages.right : s.stages.left);
    each(column);
    __syncthreads();
  }
  pairs.store(s);
}

}  // namespace tidepool::cuda
