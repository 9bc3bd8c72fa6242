// Tiles of 16-bit elements in shared memory, and the two products that attention is made of. Written against
// one of two instructions, M16n8k16 (attention_m16n8k16.cuh) or M8n8k4 (attention_m8n8k4.cuh). Each has these
// static members, for tiles of 16 rows:
//
//   Half, units, is_here()  its elements; its name for the host; whether the GPU compiled for runs it
//   Fragment                a factor's 16 x 16, as much of it as a lane holds
//   row(), row_step, column(), column_step
//                           s[n][i], of a product whose columns are keys or queries, is
//                           row() + row_step (i / 2), column() + 8 n + column_step (i % 2)
//   output_column(n)        d[n][2 j] and d[n][2 j + 1], of a product whose columns are a head's, are
//                           row() + row_step j, output_column(n) and the one after it
//   near_mate, far_mate     lanes that share a row differ in these bits
//   Left<size>              a tile as left factor
//   Columns<size>           as right factor, whose columns are the tile's rows
//   Rows<size>              as right factor, whose rows are the tile's
//   load_left               16 x 16 of a left factor straight from global memory; only where a backward's own
//                           rows do not lie in shared memory
//   product_to_left         what a product left, as the left factor of the next one
//   multiply_columns        [d0 | d1] += a b, b from Columns
//   multiply_rows           the same, b from Rows
//   kept_by_query_rows, kept_by_key_rows
//                           dropout's decisions for s[n]
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "kernels/cuda/async_copy.h"

namespace tidepool::cuda {

// Elements from a tile's start to a chunk of 8.
template <u32 size>
__device__ __forceinline__ u32 tile_offset(u32 row, u32 chunk) {
  using Row = AttentionTileRow<size>;
  return row * Row::elements + 8 * (Row::swizzled ? chunk ^ (row % 8) : chunk);
}

// Starts to copy `count` rows into a tile; zeros beyond the head's rows and columns. Commit after it.
template <u32 size, u32 count, u32 threads, class Half>
__device__ __forceinline__ void load_tile(Half* tile, const HeadRows<const Half>& from) {
  constexpr u32 chunks = AttentionTileRow<size>::chunks;
  if constexpr (threads % chunks == 0 && threads / chunks % 8 == 0 && count % (threads / chunks) == 0) {
    // A thread keeps its chunk and its place in the swizzle; one pointer goes down the rows. (With a product
    // for each row, addresses of all of them would be kept in registers from tile to tile.)
    constexpr u32 down = threads / chunks;
    const u32 first = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
    const u32 rows = 8 * chunk < from.columns ? from.rows : 0;
    const u64 stride = down * from.stride;
    const Half* source = from.row(first) + 8 * chunk;
    Half* to = tile + tile_offset<size>(first, chunk);
    UNROLL for (u32 i = 0; i < count / down; ++i) {
      const bool take = first + i * down < rows;  // else `source` may point anywhere
      async_copy_16(to + i * down * AttentionTileRow<size>::elements, source, take);
      source += stride;
    }
  } else {
    UNROLL for (u32 i = 0; i < (count * chunks + threads - 1) / threads; ++i) {
      const u32 at = i * threads + threadIdx.x, row = at / chunks, chunk = at % chunks;
      if ((count * chunks) % threads != 0 && at >= count * chunks) break;
      const bool take = row < from.rows && 8 * chunk < from.columns;
      async_copy_16(tile + tile_offset<size>(row, chunk), take ? from.row(row) + 8 * chunk : from.first,
                    take);
    }
  }
}

// Where a lane reads in a tile: chunk c of row + down, down a multiple of 8; the next chunk where
// `lane_side` is 1, for even c.
template <u32 size, class Half>
struct LaneRows {
  using Row = AttentionTileRow<size>;
  const Half* row;
  u32 side;  // 0 or 1: the left or the right chunk of a pair; swizzled already

  __device__ __forceinline__ LaneRows(const Half* tile, u32 lane_row, u32 lane_side)
      : row(tile + lane_row * Row::elements), side(Row::swizzled ? lane_side ^ (lane_row % 8) : lane_side) {}
  __device__ __forceinline__ const Half* at(u32 down, u32 c) const {
    return row + down * Row::elements + 8 * (Row::swizzled ? c / 8 * 8 + (c % 8 ^ side) : c + side);
  }
};

// Roundings inside a kernel are the hardware's, to nearest even; only what leaves a kernel is rounded as the
// project does.
template <class Half>
__device__ __forceinline__ u32 pair_fast(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  u32 pair;
  if constexpr (std::is_same_v<Half, Fp16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  }
  return pair;
#else
  return pair_of<Half>(first, second);
#endif
}

// d = a tile^T, twice: [16, size] [rows of the tile, size]^T. `left(k, a)` gives columns 16 k and on of a.
// Side by side, because each sum is a chain of additions that wait for each other.
template <class Mma, u32 size, u32 tiles, class Left>
__device__ __forceinline__ void two_times_transposed(float (&d0)[tiles][4], const Left& left0,
                                                     const typename Mma::Half* tile0, float (&d1)[tiles][4],
                                                     const Left& left1, const typename Mma::Half* tile1) {
  const typename Mma::template Columns<size> columns0(tile0), columns1(tile1);
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) d0[n][i] = d1[n][i] = 0.0f;
  UNROLL for (u32 k = 0; k < size / 16; ++k) {
    typename Mma::Fragment a0, a1, b;
    left0(k, a0);
    left1(k, a1);
    UNROLL for (u32 n = 0; n < tiles / 2; ++n) {
      columns0.load(b, 16 * n, k);
      Mma::multiply_columns(d0[2 * n], d0[2 * n + 1], a0, b);
      columns1.load(b, 16 * n, k);
      Mma::multiply_columns(d1[2 * n], d1[2 * n + 1], a1, b);
    }
  }
}

// d += p tile: [16, rows of the tile] [rows of the tile, columns 8 from_chunk and on].
template <class Mma, u32 size, u32 tiles, u32 outputs>
__device__ __forceinline__ void add_product(float (&d)[outputs][4], const float (&p)[tiles][4],
                                            const typename Mma::Half* tile, u32 from_chunk = 0) {
  const typename Mma::template Rows<size> rows(tile);
  UNROLL for (u32 k = 0; k < tiles / 2; ++k) {
    typename Mma::Fragment a, b;
    Mma::product_to_left(a, p[2 * k], p[2 * k + 1]);
    UNROLL for (u32 n = 0; n < outputs / 2; ++n) {
      rows.load(b, 16 * k, from_chunk + 2 * n);
      Mma::multiply_rows(d[2 * n], d[2 * n + 1], a, b);
    }
  }
}

// A lane's rows of `to` = factor d, from column 8 from_chunk on.
template <class Mma, u32 tiles>
__device__ __forceinline__ void store_product(const HeadRows<typename Mma::Half>& to,
                                              const float (&d)[tiles][4], const float (&factor)[2],
                                              u32 from_chunk = 0) {
  UNROLL for (u32 half = 0; half < 2; ++half) {
    const u32 row = Mma::row() + Mma::row_step * half;
    if (row >= to.rows) continue;
    auto* const p = to.row(row);
    UNROLL for (u32 n = 0; n < tiles; ++n) {
      const u32 column = 8 * from_chunk + Mma::output_column(n);
      if (column >= to.columns) continue;
      *reinterpret_cast<u32*>(p + column) =
          pair_of<typename Mma::Half>(d[n][2 * half] * factor[half], d[n][2 * half + 1] * factor[half]);
    }
  }
}

}  // namespace tidepool::cuda
