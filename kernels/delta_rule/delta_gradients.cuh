// Gradients of a chunk of the gated delta rule: of q, k, beta and g, from what the two passes over the chunks
// left: the state before the chunk, the gradient of the state after it, the corrections X and the solutions
// Y. No chunk waits for another here. With W = beta X:
//   dP = dout W^T on and below the diagonal;  d(beta B) = -Y W^T below it;  dbeta = Y X on the diagonal
//   dq = e^G dout S^T + (dP D) K
//   dk = -beta e^G Y S^T + to_end W dstate^T + (dP D)^T Q + E K + E^T K, with E = beta d(beta B) D
// Sums for dg have their own terms only: differences of longer sums would lose digits.
// Mamba-2 has neither B nor the terms with Y S^T; X is V, and dskip = dout V on the diagonal.
#pragma once

#include "kernels/delta_rule/delta_backward.cuh"

namespace tidepool::cuda {

struct alignas(16) DeltaGradientsBlock {
  DeltaBlock block;
  // d(beta B)[i, j] below the diagonal, dP[i, j] at [j, i]; later E, and dP D.
  float dpairs[delta_pairs_floats];
  float dg[delta_n], dbeta[delta_n];
  float from_state[delta_n];  // share of G's gradient of what a token reads of the state before the chunk
  float to_state[delta_n];    // and of what it adds to the state behind the chunk
};
static_assert(sizeof(DeltaGradientsBlock) == delta_gradients_bytes);

// Sums over the 16 threads of the same rows.
__device__ __forceinline__ void sum_delta_rows(float (&x)[4]) {
  UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 flip = 8; flip > 0; flip /= 2) x[i] +=
      __shfl_xor_sync(all_lanes, x[i], static_cast<int>(flip));
}

// `tiles`: of 64 columns of q and k, which a thread has in registers: its rows' products with q and k must be
// known before one can be written.
template <StateRule rule, class T, u32 tiles>
class DeltaGradients {
 public:
  __device__ __forceinline__ DeltaGradients(const DeltaBackwardArguments<T>& op, const DeltaPlace& place,
                                            DeltaGradientsBlock& s)
      : op_(op), s_(s), rows_{op.in, place, {}, s.block}, shape_(op.in.shape) {}

  // Computes the gradients of a chunk.
  __device__ __forceinline__ void run(const DeltaChunk& chunk) {
    rows_.chunk = chunk;
    state_ = chunk.first ? nullptr : op_.state_before(rows_.place, chunk);
    dstate_ = chunk.last ? nullptr : op_.gradient_after(rows_.place, chunk);
    make_pairs<true>(rows_, [](u32) {});
    corrects ? pair_gradients() : mamba_pair_gradients();
    sum_pair_gradients();
    scale_pair_gradients();
    const float through = through_state();
    q_gradient();
    k_gradient();
    __syncthreads();
    corrects ? gate_gradients(through) : step_gradients(through);
    __syncthreads();
  }

  // Writes the sums of the block's chunks. `group`: of tokens.
  __device__ __forceinline__ void write_partials(u64 group) {
    const float of_a_log = block_sum(da_log_), of_dt_bias = block_sum(ddt_bias_);
    const float of_skip = corrects ? 0 : block_sum(dskip_);
    if (op_.partials == nullptr || threadIdx.x != 0) return;
    constexpr u32 sums = corrects ? 2 : 3;
    float* to = op_.partials + group * sums * shape_.value_heads + rows_.place.head;
    to[0] = of_a_log;
    to[shape_.value_heads] = of_dt_bias;
    if (!corrects) to[2 * shape_.value_heads] = of_skip;
  }

 private:
  static constexpr bool corrects = rule == StateRule::delta;

  // Eight elements of a token's row of `dout`, X or Y; zero behind the chunk.
  template <class Row>
  __device__ __forceinline__ void values(const Row* row, u32 i, u32 column, float (&v)[8]) const {
    if (i >= rows_.chunk.count) return zero_eight(v);
    load_eight(row, column, shape_.value_size, op_.in.whole, v);
  }
  __device__ __forceinline__ void dout(u32 i, u32 column, float (&v)[8]) const {
    values(op_.dout + rows_.place.out(rows_.chunk.begin + i), i, column, v);
  }
  __device__ __forceinline__ void correction(u32 i, u32 column, float (&v)[8]) const {
    const u32 token = rows_.chunk.begin + i;
    if constexpr (corrects) {
      values(op_.work.correction(shape_, rows_.place, token), i, column, v);
    } else {
      values(op_.in.qkv + rows_.place.v(token), i, column, v);
    }
  }
  __device__ __forceinline__ void solution(u32 i, u32 column, float (&v)[8]) const {
    values(op_.work.solution(shape_, rows_.place, rows_.chunk.begin + i), i, column, v);
  }
  // Eight elements of a row of a state.
  __device__ __forceinline__ void of_state(const float* state, u32 row, u32 column, float (&v)[8]) const {
    if (row >= shape_.key_size) return zero_eight(v);
    load_eight(state + u64{row} * shape_.value_size, column, shape_.value_size, op_.in.whole, v);
  }

  // Fills dpairs and dbeta. Below the diagonal of pairs, leaves each pair's share of the gradient of its
  // span's sum of g. A thread reads and writes places of its own only: its tile, and the mirrored one.
  __device__ __forceinline__ void pair_gradients() {
    DeltaTile dp = {}, yx = {};
    const auto x = [&](u32 i, u32 k, float(&v)[8]) { correction(i, k, v); };
    add_row_products(
        dp, s_.block.stages, shape_.value_size, [&](u32 i, u32 k, float(&v)[8]) { dout(i, k, v); }, x);
    add_row_products(
        yx, s_.block.stages, shape_.value_size, [&](u32 i, u32 k, float(&v)[8]) { solution(i, k, v); }, x);
    float *pairs = s_.block.pairs, *beta = s_.block.beta;
    UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) {
      const u32 i = delta_row() + a, j = delta_column() + b;
      if (i < j) continue;
      const float of_p = dp[a][b] * beta[j], of_b = -yx[a][b] * beta[j];
      s_.dpairs[pair_at(j, i)] = of_p;
      if (i == j) {
        s_.dbeta[i] = yx[a][b];
        continue;
      }
      s_.dpairs[pair_at(i, j)] = of_b;
      pairs[pair_at(i, j)] = fmaf(of_p, pairs[pair_at(j, i)], of_b * (beta[i] * pairs[pair_at(i, j)]));
    }
    __syncthreads();
  }

  __device__ __forceinline__ void mamba_pair_gradients() {
    DeltaTile dp = {};
    add_row_products(
        dp, s_.block.stages, shape_.value_size, [&](u32 i, u32 k, float(&v)[8]) { dout(i, k, v); },
        [&](u32 i, u32 k, float(&v)[8]) { correction(i, k, v); });
    float* pairs = s_.block.pairs;
    UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) {
      const u32 i = delta_row() + a, j = delta_column() + b;
      if (i < j) continue;
      const float of_p = dp[a][b] * s_.block.beta[j];
      s_.dpairs[pair_at(j, i)] = of_p;
      if (i > j) pairs[pair_at(i, j)] = of_p * pairs[pair_at(j, i)];
    }
    for (u32 i = warp_index(); i < rows_.chunk.count; i += delta_threads / warp_threads) diagonal(i);
    __syncthreads();
  }
  // dbeta = Y V, and dskip += dout V, of a token.
  __device__ __forceinline__ void diagonal(u32 i) {
    const u32 token = rows_.chunk.begin + i;
    const T *v = op_.in.qkv + rows_.place.v(token), *dy = op_.dout + rows_.place.out(token);
    const float* y = op_.work.solution(shape_, rows_.place, token);
    float of_beta = 0, of_skip = 0;
    for (u32 c = lane_index(); c < shape_.value_size; c += warp_threads) {
      of_beta = fmaf(y[c], widened(v[c]), of_beta);
      of_skip = fmaf(widened(dy[c]), widened(v[c]), of_skip);
    }
    of_beta = warp_sum(of_beta);
    if (lane_index() == 0) s_.dbeta[i] = of_beta;
    dskip_ += of_skip;
  }

  // dg[j] = sum over i >= j > m of the shares of pairs i, m: g[j] is in the span from m to i.
  __device__ __forceinline__ void sum_pair_gradients() {
    float* pairs = s_.block.pairs;
    const u32 j = threadIdx.x;
    if (j < delta_n) {
      float sum = 0;
      for (u32 i = delta_n - 1; i > j; --i) {
        sum += pairs[pair_at(i, j)];
        pairs[pair_at(i, j)] = sum;
      }
    }
    __syncthreads();
    if (j < delta_n) {
      float sum = 0;
      for (u32 m = 0; m < j; ++m) sum += pairs[pair_at(j, m)];
      s_.dg[j] = sum;
    }
    __syncthreads();
  }

  // dpairs = E and dP D. Computes the decays again, in the place of the pairs.
  __device__ __forceinline__ void scale_pair_gradients() {
    make_decays(s_.block);
    __syncthreads();
    UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) {
      const u32 i = delta_row() + a, j = delta_column() + b;
      if (i <= j) continue;
      const float decay = s_.block.pairs[pair_at(i, j)];
      s_.dpairs[pair_at(j, i)] *= decay;
      if (corrects) s_.dpairs[pair_at(i, j)] *= s_.block.beta[i] * decay;
    }
    __syncthreads();
  }

  // RETURNS: the share of the last G's gradient of the state before the chunk that is left after it.
  __device__ __forceinline__ float through_state() const {
    if (state_ == nullptr || dstate_ == nullptr) return 0;
    float sum = 0;
    for (u32 at = threadIdx.x; at < shape_.key_size * shape_.value_size; at += delta_threads)
      sum = fmaf(state_[at], dstate_[at], sum);
    return s_.block.gamma[delta_n - 1] * block_sum(sum);
  }

  // The thread's elements of rows of length 1. `at`: of the first token; `column`: the tile's first.
  __device__ __forceinline__ void load_unit(DeltaTile& x, u64 at, const float* factors, u32 column) const {
    UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) {
      const u32 i = delta_row() + a, c = column + delta_column() + b;
      x[a][b] =
          i < rows_.chunk.count && c < shape_.key_size
              ? widened(op_.in.qkv[at + u64{i} * shape_.channels() + c]) * (corrects ? factors[i] : 1.0f)
              : 0.0f;
    }
  }
  static __device__ __forceinline__ void add_dots(float (&dots)[4], const DeltaTile& x, const DeltaTile& y) {
    UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) dots[a] =
        fmaf(x[a][b], y[a][b], dots[a]);
  }

  // Back through the length: with x^ = x / |x|, dx = (dy - x^ (x^ dy)) / |x|, q's also divided by the root.
  // `along`: y dy of the rows; `scale`: the length of y. Mamba-2's rows have no length: dx = dy.
  __device__ __forceinline__ void write_rows(const DeltaTile (&dy)[tiles], const float (&along)[4], u64 at,
                                             const float* factors, float scale) const {
    const bool adds = rows_.place.head % shape_.heads_per_key() > 0;
    UNROLL for (u32 t = 0; t < tiles; ++t) {
      DeltaTile y;
      if (corrects) load_unit(y, at, factors, t * delta_tile);
      UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) {
        const u32 i = delta_row() + a, c = t * delta_tile + delta_column() + b;
        if (i >= rows_.chunk.count || c >= shape_.key_size) continue;
        const float dx =
            corrects ? factors[i] * fmaf(-y[a][b], along[a] / (scale * scale), dy[t][a][b]) : dy[t][a][b];
        T& to = op_.dqkv[at + u64{i} * shape_.channels() + c];
        to = narrowed<T>(adds ? widened(to) + dx : dx);
      }
    }
  }

  __device__ __forceinline__ void q_gradient() {
    const u64 at = rows_.place.q(rows_.chunk.begin);
    DeltaTile dq[tiles] = {};
    float share[4] = {}, along[4] = {};
    UNROLL for (u32 t = 0; t < tiles; ++t) {
      const u32 column = t * delta_tile;
      if (column >= shape_.key_size) continue;
      DeltaTile q;
      load_unit(q, at, s_.block.q_factor, column);
      if (state_ != nullptr) add_state_products(dq[t], column);
      add_dots(share, dq[t], q);
      add_chunk_products(
          dq[t], s_.block.stages, [&](u32 i, u32 j, float(&v)[8]) { dp_row(i, j, v); },
          [&](u32 j, u32 c, float(&v)[8]) { rows_.k(j, column + c, v); });
      add_dots(along, dq[t], q);
    }
    sum_delta_rows(share);
    sum_delta_rows(along);
    if (threadIdx.x % 16 == 0) UNROLL for (u32 a = 0; a < 4; ++a) s_.from_state[delta_row() + a] = share[a];
    write_rows(dq, along, at, s_.block.q_factor, 1.0f / sqrtf(static_cast<float>(shape_.key_size)));
  }
  // dq += e^G dout S^T
  __device__ __forceinline__ void add_state_products(DeltaTile& dq, u32 column) {
    add_row_products(
        dq, s_.block.stages, shape_.value_size,
        [&](u32 i, u32 k, float(&v)[8]) {
          dout(i, k, v);
          scale_eight(v, s_.block.gamma[i]);
        },
        [&](u32 c, u32 k, float(&v)[8]) { of_state(state_, column + c, k, v); });
  }
  // Eight elements of row i of dP D, from column j on; of its transpose; and of E + E^T.
  __device__ __forceinline__ void dp_row(u32 i, u32 j, float (&v)[8]) const {
    UNROLL for (u32 e = 0; e < 8; ++e) v[e] = j + e <= i ? s_.dpairs[pair_at(j + e, i)] : 0.0f;
  }
  __device__ __forceinline__ void dp_column(u32 j, u32 i, float (&v)[8]) const {
    UNROLL for (u32 e = 0; e < 8; ++e) v[e] = i + e >= j ? s_.dpairs[pair_at(j, i + e)] : 0.0f;
  }
  __device__ __forceinline__ void both_of_e(u32 i, u32 j, float (&v)[8]) const {
    UNROLL for (u32 e = 0; e < 8; ++e) {
      const u32 high = max(i, j + e), low = min(i, j + e);
      v[e] = high > low ? s_.dpairs[pair_at(high, low)] : 0.0f;
    }
  }

  __device__ __forceinline__ void k_gradient() {
    const u64 at = rows_.place.k(rows_.chunk.begin);
    DeltaTile dk[tiles] = {};
    float share[4] = {}, ends[4] = {}, along[4] = {};
    UNROLL for (u32 t = 0; t < tiles; ++t) {
      const u32 column = t * delta_tile;
      if (column >= shape_.key_size) continue;
      DeltaTile k;
      load_unit(k, at, s_.block.k_factor, column);
      if (corrects && state_ != nullptr) add_solution_products(dk[t], column);
      add_dots(share, dk[t], k);
      if (dstate_ != nullptr) {
        DeltaTile added = {};
        add_end_products(added, column);
        add_dots(ends, added, k);
        UNROLL for (u32 a = 0; a < 4; ++a) UNROLL for (u32 b = 0; b < 4; ++b) dk[t][a][b] += added[a][b];
      }
      add_chunk_products(
          dk[t], s_.block.stages, [&](u32 j, u32 i, float(&v)[8]) { dp_column(j, i, v); },
          [&](u32 i, u32 c, float(&v)[8]) { rows_.q(i, column + c, v); });
      if (corrects)
        add_chunk_products(
            dk[t], s_.block.stages, [&](u32 i, u32 j, float(&v)[8]) { both_of_e(i, j, v); },
            [&](u32 j, u32 c, float(&v)[8]) { rows_.k(j, column + c, v); });
      add_dots(along, dk[t], k);
    }
    sum_delta_rows(share);
    sum_delta_rows(ends);
    sum_delta_rows(along);
    if (threadIdx.x % 16 == 0) UNROLL for (u32 a = 0; a < 4; ++a) {
        s_.from_state[delta_row() + a] += share[a];
        s_.to_state[delta_row() + a] = ends[a];
      }
    write_rows(dk, along, at, s_.block.k_factor, 1.0f);
  }
  // dk -= beta e^G Y S^T
  __device__ __forceinline__ void add_solution_products(DeltaTile& dk, u32 column) {
    add_row_products(
        dk, s_.block.stages, shape_.value_size,
        [&](u32 i, u32 k, float(&v)[8]) {
          solution(i, k, v);
          scale_eight(v, -s_.block.beta[i] * s_.block.gamma[i]);
        },
        [&](u32 c, u32 k, float(&v)[8]) { of_state(state_, column + c, k, v); });
  }
  // dk += to_end W dstate^T
  __device__ __forceinline__ void add_end_products(DeltaTile& dk, u32 column) {
    add_row_products(
        dk, s_.block.stages, shape_.value_size,
        [&](u32 i, u32 k, float(&v)[8]) {
          correction(i, k, v);
          scale_eight(v, s_.block.beta[i] * s_.block.to_end[i]);
        },
        [&](u32 c, u32 k, float(&v)[8]) { of_state(dstate_, column + c, k, v); });
  }

  // RETURNS: dg of a token. `through`: as through_state() returns it.
  __device__ __forceinline__ float g_gradient(u32 j, float through) const {
    float from_start = through, to_end = 0;
    for (u32 i = delta_n - 1; i > j; --i) from_start += s_.from_state[i];
    for (u32 i = 0; i < j; ++i) to_end += s_.to_state[i];
    return s_.dg[j] + (from_start + s_.from_state[j]) + to_end;
  }
  // A thread has a token.
  __device__ __forceinline__ void gate_gradients(float through) {
    const u32 j = threadIdx.x;
    if (j >= rows_.chunk.count) return;
    const float dg = g_gradient(j, through);
    const u32 token = rows_.chunk.begin + j, head = rows_.place.head;
    const u64 a = rows_.place.a(token);
    const float x = widened(op_.in.projected[a]) + op_.in.dt_bias.at(head);
    const float da = dg * -expf(op_.in.a_log.at(head)) / (1.0f + expf(-x));
    const float beta = s_.block.beta[j];
    op_.dprojected[a] = narrowed<T>(da);
    op_.dprojected[rows_.place.b(token)] = narrowed<T>(s_.dbeta[j] * beta * (1.0f - beta));
    da_log_ = fmaf(dg, s_.block.g[j], da_log_);
    ddt_bias_ += da;
  }

  __device__ __forceinline__ void step_gradients(float through) {
    const u32 j = threadIdx.x;
    if (j >= rows_.chunk.count) return;
    const float dg = g_gradient(j, through);
    const u32 head = rows_.place.head;
    const u64 at = rows_.place.a(rows_.chunk.begin + j);
    const float x = widened(op_.in.projected[at]) + op_.in.dt_bias.at(head), step = softplus_of(x);
    const bool bounded = step < op_.in.steps.least || step > op_.in.steps.most;
    const float rate = -expf(op_.in.a_log.at(head));
    const float dx = bounded ? 0.0f : fmaf(rate, dg, s_.dbeta[j]) / (1.0f + expf(-x));
    op_.dprojected[at] = narrowed<T>(dx);
    da_log_ = fmaf(dg, s_.block.g[j], da_log_);
    ddt_bias_ += dx;
  }

  const DeltaBackwardArguments<T>& op_;
  DeltaGradientsBlock& s_;
  DeltaRows<rule, T> rows_;
  const DeltaShape& shape_;
  const float *state_ = nullptr, *dstate_ = nullptr;  // before and after the chunk; null: zero
  float da_log_ = 0, ddt_bias_ = 0, dskip_ = 0;       // of the thread's tokens
};

// A block has the chunks that begin in its window of the segment.
template <StateRule rule, class T, u32 tiles>
__global__ void __launch_bounds__(delta_threads, tiles > 2 ? 1 : 2)
    delta_gradients_kernel(DeltaBackwardArguments<T> op) {
  DeltaGradientsBlock& s = *dynamic_shared<DeltaGradientsBlock>();
  const DeltaShape& shape = op.in.shape;
  const u32 windows = delta_windows(shape, op.segment), window = blockIdx.x % windows;
  const u32 sequence = blockIdx.x / windows / shape.key_heads;
  const DeltaPlace place = op.place(sequence, blockIdx.x / windows % shape.key_heads, 1);
  const u32 begin = op.segment * delta_segment_tokens + window * delta_n,
            end = min(begin + delta_n, shape.tokens);
  const i32* starts = place.starts(op.in.starts);
  DeltaGradients<rule, T, tiles> gradients(op, place, s);
  for (u32 token = begin; token < end;) {
    const DeltaChunk chunk = delta_chunk_here(shape, starts, token);
    if (chunk.begin >= begin) gradients.run(chunk);
    token = chunk.end();
  }
  const u32 in_sequence = (shape.tokens + delta_n - 1) / delta_n;
  gradients.write_partials(u64{sequence} * in_sequence + begin / delta_n);
}

}  // namespace tidepool::cuda
