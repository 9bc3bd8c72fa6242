// Tiles of 16-bit elements in shared memory, and the two products of attention. The code is generic over two
// instructions, M16n8k16 (attention_m16n8k16.cuh) and M8n8k4 (attention_m8n8k4.cuh). Each has these static
// members, for tiles of 16 rows:
//
//   Half, units, is_here()  element type; name for the host; true if the GPU compiled for has the instruction
//   Fragment                a lane's share of a factor's 16 x 16
//   row(), row_step, column(), column_step
//                           s[n][i], of a product whose columns are keys or queries, is
//                           row() + row_step (i / 2), column() + 8 n + column_step (i % 2)
//   output_column(n)        d[n][2 j] and d[n][2 j + 1], of a product whose columns are a head's, are
//                           row() + row_step j, output_column(n) and the next column
//   near_mate, far_mate     lanes that share a row differ in these bits
//   Left<size>              a tile as left factor
//   Columns<size>           a tile as right factor, whose columns are the tile's rows
//   Rows<size>              a tile as right factor, whose rows are the tile's rows
//   load_left               loads 16 x 16 of a left factor from global memory; only if a backward's own
//                           rows are not in shared memory
//   product_to_left         turns a product's result into the left factor of the next product
//   multiply_columns        [d0 | d1] += a b, b from Columns
//   multiply_rows           the same, b from Rows
//   kept_by_query_rows, kept_by_key_rows
//                           dropout's decisions for s[n]
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "kernels/cuda/async_copy.h"

namespace tidepool::cuda {

// RETURNS: the offset in elements of a chunk of 8 in a tile.
template <u32 size>
__device__ __forceinline__ u32 tile_offset(u32 row, u32 chunk) {
  using Row = AttentionTileRow<size>;
  return row * Row::elements + 8 * (Row::swizzled ? chunk ^ (row % 8) : chunk);
}

// Starts copying `count` rows into a tile, with zeros past the head's rows and columns. Call
// async_copy_commit() after.
template <u32 size, u32 count, u32 threads, class Half>
__device__ __forceinline__ void load_tile(Half* tile, const HeadRows<const Half>& from) {
  constexpr u32 chunks = AttentionTileRow<size>::chunks;
  if constexpr (threads % chunks == 0 && threads / chunks % 8 == 0 && count % (threads / chunks) == 0) {
    // A thread keeps its chunk and its position in the swizzle; one pointer advances over the rows. (With a
    // multiplication for each row, the compiler would keep all addresses in registers from tile to tile.)
    constexpr u32 down = threads / chunks;
    const u32 first = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
    const u32 rows = 8 * chunk < from.columns ? from.rows : 0;
    const u64 stride = down * from.stride;
    const Half* source = from.row(first) + 8 * chunk;
    Half* to = tile + tile_offset<size>(first, chunk);
    UNROLL for (u32 i = 0; i < count / down; ++i) {
      const bool take = first + i * down < rows;  // otherwise `source` may point anywhere
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

// A lane's addresses in a tile: chunk c of row + down, down a multiple of 8; if `lane_side` is 1, the next
// chunk, for even c.
template <u32 size, class Half>
struct LaneRows {
  using Row = AttentionTileRow<size>;
  const Half* row;
  u32 side;  // 0 or 1: left or right chunk of a pair, after swizzling

  __device__ __forceinline__ LaneRows(const Half* tile, u32 lane_row, u32 lane_side)
      : row(tile + lane_row * Row::elements), side(Row::swizzled ? lane_side ^ (lane_row % 8) : lane_side) {}
  __device__ __forceinline__ const Half* at(u32 down, u32 c) const {
    return row + down * Row::elements + 8 * (Row::swizzled ? c / 8 * 8 + (c % 8 ^ side) : c + side);
  }
};

// Inside a kernel the hardware's rounding is used, to nearest even; only a kernel's results have the
// project's rounding.
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

// d = a tile^T, twice: [16, size] [rows of the tile, size]^T. `left(k, a)` loads columns from 16 k on of a.
// The two products are interleaved, because each sum is a chain of dependent additions.
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

// d += p tile: [16, rows of the tile] [rows of the tile, columns from 8 from_chunk on].
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

// Stores a lane's rows of `to` = factor d, from column 8 from_chunk on.
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

// Adds factor d to a lane's rows of `to`, from column 8 from_chunk on.
template <class Mma, u32 tiles>
__device__ __forceinline__ void add_to_rows(const HeadRows<float>& to, const float (&d)[tiles][4],
                                            const float (&factor)[2], u32 from_chunk = 0) {
  UNROLL for (u32 half = 0; half < 2; ++half) {
    const u32 row = Mma::row() + Mma::row_step * half;
    if (row >= to.rows) continue;
    float* const p = to.row(row);
    UNROLL for (u32 n = 0; n < tiles; ++n) {
      const u32 column = 8 * from_chunk + Mma::output_column(n);
      if (column >= to.columns) continue;
      p[column] += d[n][2 * half] * factor[half];
      p[column + 1] += d[n][2 * half + 1] * factor[half];
    }
  }
}

}  // namespace tidepool::cuda
