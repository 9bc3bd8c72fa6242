// A slice of a head's columns of V, and of its state, in a block of threads. A thread has four rows, and one
// or two columns, of each product.
#pragma once

#include "kernels/delta_rule/delta_block.cuh"

namespace tidepool::cuda {

// Arrays in shared memory.
template <u32 slice>
struct DeltaSlice {
  static constexpr u32 columns = slice / 16;  // of a thread
  using Sums = float[4][columns];

  DeltaBlock block;
  float rows[delta_n * slice];      // [n, slice]
  float state[delta_state_floats];  // [DK, slice], zero up to whole tiles of 64 rows

  static __device__ __forceinline__ u32 column() { return threadIdx.x % 16 * columns; }
  static __device__ __forceinline__ void clear(Sums& x) {
    UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < columns; ++j) x[i][j] = 0.0f;
  }
  // The thread's columns of a row.
  static __device__ __forceinline__ void load_own(const float* row, float (&v)[columns]) {
    if constexpr (columns == 2) {
      const float2 x = *reinterpret_cast<const float2*>(row + column());
      v[0] = x.x, v[1] = x.y;
    } else {
      v[0] = row[column()];
    }
  }
  static __device__ __forceinline__ void store_own(float* row, const float (&v)[columns]) {
    UNROLL for (u32 j = 0; j < columns; ++j) row[column() + j] = v[j];
  }
  // sums[i][j] += a[i] b[j].
  static __device__ __forceinline__ void add(Sums& sums, const float (&a)[4], const float (&b)[columns]) {
    UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < columns; ++j) sums[i][j] =
        fmaf(a[i], b[j], sums[i][j]);
  }

  // sums += 32 columns of rows in a stage [64, 32] times rows [32, slice] of a state.
  static __device__ __forceinline__ void add_staged(Sums& sums, const float* stage, const float* state) {
    for (u32 k = 0; k < delta_step; k += 4) {
      DeltaTile a;
      load_rows(a, stage, delta_row(), k);
      UNROLL for (u32 m = 0; m < 4; ++m) {
        float b[columns];
        load_own(state + (k + m) * slice, b);
        UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < columns; ++j) sums[i][j] =
            fmaf(a[i][m], b[j], sums[i][j]);
      }
    }
  }
  // sums += P x, for x [n, slice].
  __device__ __forceinline__ void add_pairs(Sums& sums, const float* x) const {
    const u32 row = delta_row();
    for (u32 k = 0; k < row + 4; ++k) {
      float a[4], b[columns];
      load4(block.pairs + pair_at(k, row), a);
      if (k > row) UNROLL for (u32 i = 0; i < 4; ++i) a[i] = k > row + i ? 0.0f : a[i];
      load_own(x + k * slice, b);
      add(sums, a, b);
    }
  }
  // sums += P^T x.
  __device__ __forceinline__ void add_transposed_pairs(Sums& sums, const float* x) const {
    const u32 row = delta_row();
    for (u32 k = row; k < delta_n; k += 4) {
      DeltaTile a;
      UNROLL for (u32 i = 0; i < 4; ++i) load4(block.pairs + pair_at(row + i, k), a[i]);
      UNROLL for (u32 m = 0; m < 4; ++m) {
        float b[columns];
        load_own(x + (k + m) * slice, b);
        UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < columns; ++j) {
          const float p = k + m < row + i ? 0.0f : a[i][m];
          sums[i][j] = fmaf(p, b[j], sums[i][j]);
        }
      }
    }
  }
  // sums += x^T y for 64 columns of x [n, 64], which are rows of the result, and y [n, slice].
  static __device__ __forceinline__ void add_outer(Sums& sums, const float* x, const float* y) {
    for (u32 k = 0; k < delta_n; ++k) {
      float a[4], b[columns];
      load4(x + k * delta_tile + delta_row(), a);
      load_own(y + k * slice, b);
      add(sums, a, b);
    }
  }
  // Fills [n, 64] in the place of the pairs, which must be done with: load(i, k, v) gives eight columns.
  template <class Load>
  __device__ __forceinline__ void stage_chunk(Load load) {
    for (u32 first = 0; first < delta_n; first += delta_step) stage_columns(block.pairs, first, load);
  }
  // Rows begin to begin + 63 of the state = decay times themselves + sums.
  __device__ __forceinline__ void advance(u32 begin, float decay, const Sums& sums) {
    UNROLL for (u32 i = 0; i < 4; ++i) {
      float* row = state + (begin + delta_row() + i) * slice;
      float v[columns];
      load_own(row, v);
      UNROLL for (u32 j = 0; j < columns; ++j) v[j] = fmaf(decay, v[j], sums[i][j]);
      store_own(row, v);
    }
  }

  // Calls fn(place in the state, row, column) for each element of the state that the head has.
  template <class Fn>
  __device__ __forceinline__ void for_state(u32 key_size, u32 width, Fn fn) const {
    for (u32 at = threadIdx.x; at < key_size * slice; at += delta_threads)
      if (at % slice < width) fn(at, at / slice, at % slice);
  }
  // Also of padded rows and columns. No barrier: a thread has the same elements in all of these.
  __device__ __forceinline__ void clear_state(u32 key_size) {
    const u32 rows_all = (key_size + delta_tile - 1) / delta_tile * delta_tile;
    for (u32 at = threadIdx.x; at < rows_all * slice; at += delta_threads) state[at] = 0.0f;
  }
  // Fills the state from columns of [DK, DV] in global memory, or writes them.
  __device__ __forceinline__ void load_state(const DeltaShape& shape, const float* from, u32 width) {
    clear_state(shape.key_size);
    for_state(shape.key_size, width,
              [&](u32 at, u32 row, u32 column) { state[at] = from[row * shape.value_size + column]; });
  }
  __device__ __forceinline__ void store_state(const DeltaShape& shape, float* to, u32 width) const {
    for_state(shape.key_size, width,
              [&](u32 at, u32 row, u32 column) { to[row * shape.value_size + column] = state[at]; });
  }
};

static_assert(sizeof(DeltaSlice<32>) == delta_slice_bytes(32) &&
              sizeof(DeltaSlice<16>) == delta_slice_bytes(16));

// The thread's rows -= sums.
template <u32 slice>
__device__ __forceinline__ void subtract_rows(DeltaSlice<slice>& s,
                                              const typename DeltaSlice<slice>::Sums& sums) {
  UNROLL for (u32 i = 0; i < 4; ++i) UNROLL for (u32 j = 0; j < DeltaSlice<slice>::columns; ++j)
      s.rows[(delta_row() + i) * slice + DeltaSlice<slice>::column() + j] -= sums[i][j];
}

inline constexpr u32 delta_solve_rows = 16;  // that a thread has in registers

// X = U - B W, W = beta X in place of U, in `rows`; calls each(i, column, x) for every x. The first threads
// solve 16 rows of a column each, in registers; then all take these rows away from those below.
template <u32 slice, class Each>
__device__ __forceinline__ void solve_delta(DeltaSlice<slice>& s, Each each) {
  using Slice = DeltaSlice<slice>;
  const float* pairs = s.block.pairs;
  for (u32 begin = 0; begin < delta_n; begin += delta_solve_rows) {
    const u32 end = begin + delta_solve_rows, column = threadIdx.x;
    if (column < slice) {
      float x[delta_solve_rows];
      UNROLL for (u32 i = 0; i < delta_solve_rows; ++i) x[i] = s.rows[(begin + i) * slice + column];
      UNROLL for (u32 j = 0; j < delta_solve_rows; ++j) {
        each(begin + j, column, x[j]);
        x[j] *= s.block.beta[begin + j];
        UNROLL for (u32 i = j + 1; i < delta_solve_rows; ++i) x[i] =
            fmaf(-pairs[pair_at(begin + i, begin + j)], x[j], x[i]);
      }
      UNROLL for (u32 i = 0; i < delta_solve_rows; ++i) s.rows[(begin + i) * slice + column] = x[i];
    }
    __syncthreads();
    if (delta_row() >= end) {
      typename Slice::Sums sums;
      Slice::clear(sums);
      for (u32 k = begin; k < end; k += 4) {
        DeltaTile b;
        UNROLL for (u32 i = 0; i < 4; ++i) load4(pairs + pair_at(delta_row() + i, k), b[i]);
        UNROLL for (u32 m = 0; m < 4; ++m) {
          float w[Slice::columns];
          Slice::load_own(s.rows + (k + m) * slice, w);
          const float a[4] = {b[0][m], b[1][m], b[2][m], b[3][m]};
          Slice::add(sums, a, w);
        }
      }
      subtract_rows(s, sums);
    }
    __syncthreads();
  }
}

// Y = (I + beta B)^-T Y in `rows`, from the last rows on; calls each(i, column, y) for every y.
template <u32 slice, class Each>
__device__ __forceinline__ void solve_delta_transposed(DeltaSlice<slice>& s, Each each) {
  using Slice = DeltaSlice<slice>;
  const float *pairs = s.block.pairs, *beta = s.block.beta;
  for (u32 end = delta_n; end > 0; end -= delta_solve_rows) {
    const u32 begin = end - delta_solve_rows, column = threadIdx.x;
    if (column < slice) {
      float y[delta_solve_rows];
      UNROLL for (u32 i = 0; i < delta_solve_rows; ++i) y[i] = s.rows[(begin + i) * slice + column];
      UNROLL for (u32 back = 1; back <= delta_solve_rows; ++back) {
        const u32 i = delta_solve_rows - back;
        each(begin + i, column, y[i]);
        const float weighted = -beta[begin + i] * y[i];
        UNROLL for (u32 j = 0; j < i; ++j) y[j] = fmaf(pairs[pair_at(begin + i, begin + j)], weighted, y[j]);
      }
      UNROLL for (u32 i = 0; i < delta_solve_rows; ++i) s.rows[(begin + i) * slice + column] = y[i];
    }
    __syncthreads();
    if (delta_row() < begin) {
      typename Slice::Sums sums;
      Slice::clear(sums);
      for (u32 k = begin; k < end; ++k) {
        float a[4], y[Slice::columns];
        load4(pairs + pair_at(k, delta_row()), a);
        UNROLL for (u32 i = 0; i < 4; ++i) a[i] *= beta[k];
        Slice::load_own(s.rows + k * slice, y);
        Slice::add(sums, a, y);
      }
      subtract_rows(s, sums);
    }
    __syncthreads();
  }
}

// A block's place: blocks of a head are neighbours. `heads`: of a sequence, that the launch has.
template <u32 slice>
struct DeltaSlicePlace {
  u32 sequence, head, begin, width;

  __device__ __forceinline__ DeltaSlicePlace(const DeltaShape& s, u32 heads) {
    const u32 slices = (s.value_size + slice - 1) / slice;
    sequence = blockIdx.x / slices / heads;
    head = blockIdx.x / slices % heads;
    begin = blockIdx.x % slices * slice;
    width = min(slice, s.value_size - begin);
  }
};

// rows = W of a chunk, from the state before it; the block is filled. `out`: e^G Q S, if reads_q. Calls
// each(i, column, x) for every correction X. Mamba-2 has W = beta V, and reads the pairs only with Q.
template <bool reads_q, StateRule rule, class T, u32 slice, class Each>
__device__ __forceinline__ void correct_values(const DeltaRows<rule, T>& rows,
                                               const DeltaSlicePlace<slice>& place, DeltaSlice<slice>& s,
                                               typename DeltaSlice<slice>::Sums& out, Each each) {
  using Slice = DeltaSlice<slice>;
  constexpr bool corrects = rule == StateRule::delta;
  typename Slice::Sums u;
  Slice::clear(u);
  Slice::clear(out);
  if constexpr (corrects || reads_q) {
    make_pairs<reads_q>(rows, [&](u32 column) {
      if (corrects) Slice::add_staged(u, s.block.stages.left, s.state + column * slice);
      if (reads_q) Slice::add_staged(out, s.block.stages.right, s.state + column * slice);
    });
  } else {
    rows.make_gates();
  }
  UNROLL for (u32 i = 0; i < 4; ++i) {
    const u32 row = delta_row() + i;
    const float gamma = s.block.gamma[row];
    const T* v = rows.in.qkv + rows.place.v(rows.chunk.begin + row) + place.begin;
    UNROLL for (u32 j = 0; j < Slice::columns; ++j) {
      const u32 column = Slice::column() + j;
      const float value = row < rows.chunk.count && column < place.width ? widened(v[column]) : 0.0f;
      u[i][j] = corrects ? fmaf(-gamma, u[i][j], value) : s.block.beta[row] * value;
      out[i][j] *= gamma;
    }
    Slice::store_own(s.rows + row * slice, u[i]);
  }
  __syncthreads();
  if constexpr (corrects) solve_delta(s, each);
}

// state = e^G[last] state + (to_end K)^T W. Overwrites the pairs. Ends with a barrier.
template <StateRule rule, class T, u32 slice>
__device__ __forceinline__ void advance_state(const DeltaRows<rule, T>& rows, DeltaSlice<slice>& s) {
  using Slice = DeltaSlice<slice>;
  KEEP_ROLLED for (u32 begin = 0; begin < rows.in.shape.key_size; begin += delta_tile) {
    s.stage_chunk([&](u32 i, u32 k, float(&v)[8]) {
      rows.k(i, begin + k, v);
      scale_eight(v, s.block.to_end[i]);
    });
    __syncthreads();
    typename Slice::Sums sums;
    Slice::clear(sums);
    Slice::add_outer(sums, s.block.pairs, s.rows);
    s.advance(begin, s.block.gamma[delta_n - 1], sums);
    __syncthreads();
  }
}

}  // namespace tidepool::cuda
