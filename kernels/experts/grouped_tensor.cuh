// A tile of 128 x 128 of a grouped product on tensor cores. Factors stream through stages in shared memory:
// "tall" tiles have 128 rows of 32 inner elements, "wide" tiles 32 inner rows of 128. The fragments and the
// layout of tiles are attention's (kernels/attention/attention_tiles.cuh).
//
// Eight warps have 64 x 32 each, 64 accumulators per thread; two blocks share a multiprocessor's registers.
#pragma once

#include "kernels/attention/attention_m16n8k16.cuh"
#include "kernels/attention/attention_m8n8k4.cuh"
#include "kernels/cuda/async_copy.h"
#include "kernels/experts/grouped_launch.h"
#include "kernels/experts/grouped_output.cuh"

namespace tidepool::cuda {

static_assert(grouped_tall_elements == grouped_tile * AttentionTileRow<grouped_step>::elements);
static_assert(grouped_wide_elements == grouped_step * AttentionTileRow<grouped_tile>::elements);

// Columns and rows of `from` that are in the array, from its first element on; others count as zeros.
template <class T>
struct FactorRows {
  const T* first;
  u64 stride;  // elements from row to row
  u32 rows, columns;
};

// Starts loading a tile of `count` rows of `size`. Parameters in another precision are converted. Call
// async_copy_commit() after.
template <u32 size, u32 count, bool whole, class Half, class From>
__device__ __forceinline__ void load_factor(Half* tile, const FactorRows<From>& from) {
  constexpr u32 chunks = size / 8;
  static_assert(count * chunks % grouped_threads == 0);
  UNROLL for (u32 i = 0; i < count * chunks / grouped_threads; ++i) {
    const u32 at = i * grouped_threads + threadIdx.x, row = at / chunks, chunk = at % chunks;
    const bool take = row < from.rows && 8 * chunk < from.columns;
    Half* const to = tile + tile_offset<size>(row, chunk);
    if constexpr (whole && std::is_same_v<From, Half>) {
      async_copy_16(to, take ? from.first + row * from.stride + 8 * chunk : from.first, take);
    } else {
      float v[8] = {};
      if (take) load8<whole>(from.first + row * from.stride, 8 * chunk, from.columns, v);
      store8<true>(to, 0, 8, v);
    }
  }
}

// Loads 32 rows of 128 as a tall tile, 128 rows of 32: sm_70 has no transposing loads of fragments.
template <bool whole, class Half>
__device__ __forceinline__ void load_factor_transposed(Half* tile, const FactorRows<Half>& from) {
  static_assert(grouped_step / 2 * (grouped_tile / 8) == grouped_threads);
  const u32 row = 2 * (threadIdx.x % (grouped_step / 2)), chunk = threadIdx.x / (grouped_step / 2);
  float v[2][8] = {};
  UNROLL for (u32 i = 0; i < 2; ++i) {
    if (row + i < from.rows && 8 * chunk < from.columns) {
      load8<whole>(from.first + (row + i) * from.stride, 8 * chunk, from.columns, v[i]);
    }
  }
  UNROLL for (u32 i = 0; i < 8; ++i) {
    Half* const to = tile + tile_offset<grouped_step>(8 * chunk + i, row / 8) + row % 8;
    *reinterpret_cast<u32*>(to) = pair_of<Half>(v[0][i], v[1][i]);
  }
}

// A wide tile as left factor: rows of the factor are columns of the tile. From sm_75 on.
template <class Half>
struct WideLeft {
  LaneRows<grouped_tile, Half> rows;
  __device__ __forceinline__ explicit WideLeft(const Half* tile)
      : rows(tile, lane_index() / 16 * 8 + lane_index() % 8, lane_index() / 8 % 2) {}
  __device__ __forceinline__ void load(u32 (&a)[4], u32 down, u32 k) const {
    load_matrices_transposed(a, rows.at(16 * k, down / 8));
  }
};

// Puts a left fragment's inner elements into the order of Mma::Rows. m8n8k4 takes rows 0 2 4 6, 8 10 12 14,
// 1 3 5 7, 9 11 13 15 of a tile (kernels/attention/attention_m8n8k4.cuh).
template <class Mma>
__device__ __forceinline__ void order_as_rows(typename Mma::Fragment& a) {
  if constexpr (Mma::units == AttentionUnits::tensor_sm70) {
    u32 even[4], odd[4];
    UNROLL for (u32 i = 0; i < 4; ++i) {
      even[i] = (a[2 * i] & 0xffffu) | a[2 * i + 1] << 16;
      odd[i] = a[2 * i] >> 16 | (a[2 * i + 1] & 0xffff'0000u);
    }
    UNROLL for (u32 i = 0; i < 4; ++i) a[i] = even[i], a[4 + i] = odd[i];
  }
}

using GroupedSums = float[4][4][4];  // of tiles of 16 rows, of 8 columns, by lane

struct GroupedWarp {
  u32 row, column;  // the first of the warp's 64 x 32
  __device__ __forceinline__ GroupedWarp() : row(warp_index() / 4 * 64), column(warp_index() % 4 * 32) {}
};

// d += left right over one stage.
template <class Mma, class Left, bool right_is_tall>
__device__ __forceinline__ void add_stage(GroupedSums& d, const typename Mma::Half* left_tile,
                                          const typename Mma::Half* right_tile) {
  const GroupedWarp warp;
  const Left left(left_tile);
  const typename Mma::template Columns<grouped_step> columns(right_tile);
  const typename Mma::template Rows<grouped_tile> rows(right_tile);
  UNROLL for (u32 k = 0; k < grouped_step / 16; ++k) {
    typename Mma::Fragment a[4], b;
    UNROLL for (u32 m = 0; m < 4; ++m) {
      left.load(a[m], warp.row + 16 * m, k);
      if constexpr (!right_is_tall) order_as_rows<Mma>(a[m]);
    }
    UNROLL for (u32 n = 0; n < 2; ++n) {
      if constexpr (right_is_tall) {
        columns.load(b, warp.column + 16 * n, k);
      } else {
        rows.load(b, 16 * k, (warp.column + 16 * n) / 8);
      }
      UNROLL for (u32 m = 0; m < 4; ++m) {
        if constexpr (right_is_tall) {
          Mma::multiply_columns(d[m][2 * n], d[m][2 * n + 1], a[m], b);
        } else {
          Mma::multiply_rows(d[m][2 * n], d[m][2 * n + 1], a[m], b);
        }
      }
    }
  }
}

// d = the product over all steps. load(stage, step) starts copies, add(stage) adds a stage. While a stage is
// added, later ones are on their way.
template <u32 stages, class Load, class Add>
__device__ __forceinline__ void stream_stages(GroupedSums& d, u32 steps, Load load, Add add) {
  UNROLL for (u32 m = 0; m < 4; ++m) UNROLL for (u32 n = 0; n < 4; ++n) UNROLL for (u32 i = 0; i < 4; ++i) {
    d[m][n][i] = 0.0f;
  }
  for (u32 step = 0; step + 1 < stages; ++step) {
    if (step < steps) load(step, step);
    async_copy_commit();
  }
  u32 stage = 0, free = stages - 1;  // free: the stage of the step before, which all warps have left
  for (u32 step = 0; step < steps; ++step) {
    async_copy_wait<stages - 2>();
    __syncthreads();
    if (step + stages - 1 < steps) load(free, step + stages - 1);
    async_copy_commit();
    add(stage);
    free = stage;
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
  async_copy_wait<0>();
  __syncthreads();  // the next tile's copies may begin
}

template <class Mma, bool right_is_tall, bool whole, class T, class P>
__device__ __forceinline__ void store_sums(const GroupedSums& d, const TileOutput<T, P>& out) {
  const GroupedWarp warp;
  UNROLL for (u32 m = 0; m < 4; ++m) UNROLL for (u32 n = 0; n < 4; ++n) UNROLL for (u32 j = 0; j < 2; ++j) {
    const u32 row = warp.row + 16 * m + Mma::row() + Mma::row_step * j;
    const float first = d[m][n][2 * j], second = d[m][n][2 * j + 1];
    if constexpr (right_is_tall && Mma::column_step != 1) {
      const u32 column = warp.column + 8 * n + Mma::column();
      out.put(row, column, first);
      out.put(row, column + Mma::column_step, second);
    } else {
      out.template put_pair<whole>(row, warp.column + Mma::output_column(n), first, second);
    }
  }
}

}  // namespace tidepool::cuda
