// Tiles of 16-bit elements in shared memory, fragments of them in registers, and the two products that
// attention is made of. Layouts of fragments: kernels/cuda/tensor_core.h.
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/tensor_core.h"

namespace tidepool::cuda {

using Fragment = u32[4];  // 16 x 16 of a left factor

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

// Where a lane's rows of ldmatrix lie in a tile: chunk c (even) of row + down, down a multiple of 8.
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

// Lanes' rows for each part that a tile can play.
template <u32 size, class Half>
__device__ __forceinline__ LaneRows<size, Half> left_factor(const Half* tile) {
  return {tile, lane_index() % 16, lane_index() / 16};
}
// The tile's rows are columns of the right factor.
template <u32 size, class Half>
__device__ __forceinline__ LaneRows<size, Half> right_factor_transposed(const Half* tile) {
  return {tile, lane_index() / 16 * 8 + lane_index() % 8, lane_index() / 8 % 2};
}
// The tile's rows are rows of the right factor; to be loaded transposed.
template <u32 size, class Half>
__device__ __forceinline__ LaneRows<size, Half> right_factor(const Half* tile) {
  return {tile, lane_index() % 16, lane_index() / 16};
}

// d0 | d1 += a [b left | b right]
template <class Half>
__device__ __forceinline__ void mma_pair(float (&d0)[4], float (&d1)[4], const Fragment& a,
                                         const Fragment& b) {
  const u32 left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
  mma_16x8x16<Half>(d0, a, left);
  mma_16x8x16<Half>(d1, a, right);
}

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

// What a product left, as the left factor of the next one: columns 16 k ... 16 k + 15.
template <class Half, u32 tiles>
__device__ __forceinline__ void to_left_factor(Fragment& a, const float (&d)[tiles][4], u32 k) {
  a[0] = pair_fast<Half>(d[2 * k][0], d[2 * k][1]);
  a[1] = pair_fast<Half>(d[2 * k][2], d[2 * k][3]);
  a[2] = pair_fast<Half>(d[2 * k + 1][0], d[2 * k + 1][1]);
  a[3] = pair_fast<Half>(d[2 * k + 1][2], d[2 * k + 1][3]);
}

// d = a tile^T, twice: [16, size] [rows of the tile, size]^T. `left(k, a)` gives columns 16 k and on of a.
// Side by side, because each sum is a chain of additions that wait for each other.
template <u32 size, u32 tiles, class Left, class Half>
__device__ __forceinline__ void two_times_transposed(float (&d0)[tiles][4], const Left& left0,
                                                     const Half* tile0, float (&d1)[tiles][4],
                                                     const Left& left1, const Half* tile1) {
  const auto rows0 = right_factor_transposed<size>(tile0), rows1 = right_factor_transposed<size>(tile1);
  UNROLL for (u32 n = 0; n < tiles; ++n) UNROLL for (u32 i = 0; i < 4; ++i) d0[n][i] = d1[n][i] = 0.0f;
  UNROLL for (u32 k = 0; k < size / 16; ++k) {
    Fragment a0, a1, b;
    left0(k, a0);
    left1(k, a1);
    UNROLL for (u32 n = 0; n < tiles / 2; ++n) {
      load_matrices(b, rows0.at(16 * n, 2 * k));
      mma_pair<Half>(d0[2 * n], d0[2 * n + 1], a0, b);
      load_matrices(b, rows1.at(16 * n, 2 * k));
      mma_pair<Half>(d1[2 * n], d1[2 * n + 1], a1, b);
    }
  }
}

// d += p tile: [16, rows of the tile] [rows of the tile, columns 8 from_chunk and on].
template <u32 size, u32 tiles, u32 outputs, class Half>
__device__ __forceinline__ void add_product(float (&d)[outputs][4], const float (&p)[tiles][4],
                                            const Half* tile, u32 from_chunk = 0) {
  const auto rows = right_factor<size>(tile);
  UNROLL for (u32 k = 0; k < tiles / 2; ++k) {
    Fragment a, b;
    to_left_factor<Half>(a, p, k);
    UNROLL for (u32 n = 0; n < outputs / 2; ++n) {
      load_matrices_transposed(b, rows.at(16 * k, from_chunk + 2 * n));
      mma_pair<Half>(d[2 * n], d[2 * n + 1], a, b);
    }
  }
}

// 16 x 16 of a left factor straight from global memory: row lane / 4 of `from` and the eighth after it.
template <class Half>
__device__ __forceinline__ void load_fragment(Fragment& a, const HeadRows<const Half>& from, u32 k) {
  UNROLL for (u32 i = 0; i < 4; ++i) {
    const u32 row = lane_index() / 4 + 8 * (i % 2), column = 16 * k + 8 * (i / 2) + 2 * (lane_index() % 4);
    const bool take = row < from.rows && column < from.columns;
    a[i] = take ? *reinterpret_cast<const u32*>(from.row(row) + column) : 0;
  }
}

// Rows lane / 4 and the eighth after it of `to` = factor d, from column 8 from_chunk on.
template <u32 tiles, class Half>
__device__ __forceinline__ void store_product(const HeadRows<Half>& to, const float (&d)[tiles][4],
                                              const float (&factor)[2], u32 from_chunk = 0) {
  UNROLL for (u32 half = 0; half < 2; ++half) {
    const u32 row = lane_index() / 4 + 8 * half;
    if (row >= to.rows) continue;
    Half* p = to.row(row);
    UNROLL for (u32 n = 0; n < tiles; ++n) {
      const u32 column = 8 * (from_chunk + n) + 2 * (lane_index() % 4);
      if (column >= to.columns) continue;
      *reinterpret_cast<u32*>(p + column) =
          pair_of<Half>(d[n][2 * half] * factor[half], d[n][2 * half + 1] * factor[half]);
    }
  }
}

}  // namespace tidepool::cuda
