// Attention's tiles with mma.m8n8k4, fp16 on sm_70. attention_tiles.cuh documents the members;
// kernels/cuda/quad_pairs.h documents the layouts of fragments.
//
// Four quad pairs compute 16 x 16: lane bit 3 selects the 8 rows, bit 2 the 8 columns of the instruction.
// Both pairs of a row supply the same left factor, both pairs of a column the same right factor, so a lane
// holds 16 elements of each 16 x 16, twice as many as with m16n8k16.
//
// The order of keys or queries in the columns of a product of scores is free, as long as the next product
// numbers its rows in the same way: column c is row 2 (c % 4) + c / 8 + 8 (c / 4 % 2) of the tile. With this
// order the rows that eight lanes read at once lie in eight different groups of banks, by columns and by
// rows.
#pragma once

#include "kernels/attention/attention_dropout.cuh"
#include "kernels/attention/attention_tiles.cuh"
#include "kernels/cuda/quad_pairs.h"

namespace tidepool::cuda {

struct M8n8k4 {
  using Half = Fp16;
  using Fragment = u32[8];  // four fragments of m8n8k4, along the inner dimension
  static constexpr AttentionUnits units = AttentionUnits::tensor_sm70;
  static constexpr u32 row_step = 2, column_step = 2;
  static constexpr int near_mate = 2, far_mate = 4;

  static constexpr bool is_here() { return has_mma_8x8x4(); }
  static __device__ __forceinline__ u32 bit(u32 i) { return lane_index() >> i & 1; }
  static __device__ __forceinline__ u32 row() { return bit(0) + 4 * bit(4) + 8 * bit(3); }
  static __device__ __forceinline__ u32 column() { return 4 * bit(1) + bit(2); }
  static __device__ __forceinline__ u32 output_column(u32 n) {
    return 16 * (n / 2) + 4 * (n % 2) + 8 * bit(2) + 2 * bit(1);
  }

  // 16 neighbours in one row of the tile.
  template <u32 size>
  struct WholeRow {
    LaneRows<size, Half> rows;
    __device__ __forceinline__ void load(Fragment& f, u32 down, u32 k) const {
      const uint4 low = load_shared_16(rows.at(down, 2 * k)), high = load_shared_16(rows.at(down, 2 * k + 1));
      f[0] = low.x, f[1] = low.y, f[2] = low.z, f[3] = low.w;
      f[4] = high.x, f[5] = high.y, f[6] = high.z, f[7] = high.w;
    }
  };
  template <u32 size>
  struct Left : WholeRow<size> {
    __device__ __forceinline__ explicit Left(const Half* tile)
        : WholeRow<size>{{tile, lane_index() % 4 + 4 * bit(4) + 8 * bit(3), 0}} {}
  };
  template <u32 size>
  struct Columns : WholeRow<size> {
    __device__ __forceinline__ explicit Columns(const Half* tile)
        : WholeRow<size>{{tile, 2 * (lane_index() % 4) + bit(2) + 8 * bit(4), 0}} {}
  };
  template <u32 size>
  struct Rows {
    LaneRows<size, Half> even, odd;
    __device__ __forceinline__ explicit Rows(const Half* tile)
        : even(tile + 4 * bit(4), 2 * (lane_index() % 4), bit(2)),
          odd(tile + 4 * bit(4), 2 * (lane_index() % 4) + 1, bit(2)) {}
    __device__ __forceinline__ void load(Fragment& b, u32 down, u32 chunk) const {
      UNROLL for (u32 i = 0; i < 4; ++i) {
        const uint2 words = load_shared_8((i < 2 ? even : odd).at(down + 8 * (i % 2), chunk));
        b[2 * i] = words.x, b[2 * i + 1] = words.y;
      }
    }
  };

  // A product leaves two rows of each lane's quad in each lane, two columns at a time; a left factor needs
  // one row per lane, with all columns. So lanes exchange values within the quad, then with the quad pair of
  // the other columns.
  static __device__ __forceinline__ void product_to_left(Fragment& a, const float (&d0)[4],
                                                         const float (&d1)[4]) {
    u32 own[4];  // the eight columns of this quad pair
    UNROLL for (u32 n = 0; n < 2; ++n) {
      const float(&d)[4] = n == 0 ? d0 : d1;
      const u32 upper = pair_fast<Half>(d[0], d[1]), lower = pair_fast<Half>(d[2], d[3]);
      const u32 got = traded(bit(1) != 0 ? upper : lower, near_mate);
      own[2 * n] = bit(1) != 0 ? got : upper;
      own[2 * n + 1] = bit(1) != 0 ? lower : got;
    }
    UNROLL for (u32 i = 0; i < 4; ++i) {
      const u32 other = traded(own[i], far_mate);
      a[i] = bit(2) != 0 ? other : own[i];
      a[4 + i] = bit(2) != 0 ? own[i] : other;
    }
  }
  template <RightFactorBy by>
  static __device__ __forceinline__ void multiply(float (&d0)[4], float (&d1)[4], const Fragment& a,
                                                  const Fragment& b) {
    UNROLL for (u32 k = 0; k < 4; ++k) {
      const u32 left[2] = {a[2 * k], a[2 * k + 1]}, right[2] = {b[2 * k], b[2 * k + 1]};
      mma_8x8x4<by>(d0, d1, left, right);
    }
  }
  static __device__ __forceinline__ void multiply_columns(float (&d0)[4], float (&d1)[4], const Fragment& a,
                                                          const Fragment& b) {
    multiply<RightFactorBy::columns>(d0, d1, a, b);
  }
  static __device__ __forceinline__ void multiply_rows(float (&d0)[4], float (&d1)[4], const Fragment& a,
                                                       const Fragment& b) {
    multiply<RightFactorBy::rows>(d0, d1, a, b);
  }

  // A block of Philox covers four keys of a query, which belong to two lanes, alternately.
  static __device__ __forceinline__ uint4 every_other(const uint4& w) {
    return make_uint4(w.x, w.z, w.y, w.w);
  }
  // Two lanes need the same two blocks, one block for each of their rows.
  static __device__ __forceinline__ u32 kept_by_query_rows(const DropoutRow& dropout, u64 first, u32 stride) {
    if (stride % 4 != 0) return kept_one_by_one(dropout, first, column_step, row_step * u64{stride});
    const bool odd = bit(2) != 0;
    const uint4 w = philox_words(dropout.key, (first + (odd ? row_step * u64{stride} : 0)) / 4);
    u32 words[4];
    trade_pairs(words, every_other(w), odd, far_mate);
    return kept_of(words, dropout.threshold);
  }
  // The same with a block for each of their columns: words arrive as (row, column), (row, column), not by
  // rows.
  static __device__ __forceinline__ u32 kept_by_key_rows(const DropoutRow& dropout, u64 first, u32 stride) {
    if (stride % 4 != 0) return kept_one_by_one(dropout, first, column_step * u64{stride}, row_step);
    const bool odd = bit(0) != 0;
    const uint4 w = philox_words(dropout.key, (first + (odd ? column_step * u64{stride} : 0)) / 4);
    u32 by_column[4];
    trade_pairs(by_column, every_other(w), odd, 1);
    const u32 words[4] = {by_column[0], by_column[2], by_column[1], by_column[3]};
    return kept_of(words, dropout.threshold);
  }
};

}  // namespace tidepool::cuda
