// Attention's tiles with mma.m16n8k16, from sm_80 on, and for fp16 from sm_75 on. attention_tiles.cuh
// documents the members; kernels/cuda/tensor_core.h documents the layouts of fragments.
#pragma once

#include "kernels/attention/attention_dropout.cuh"
#include "kernels/attention/attention_tiles.cuh"
#include "kernels/cuda/tensor_core.h"

namespace tidepool::cuda {

template <class HalfType>
struct M16n8k16 {
  using Half = HalfType;
  using Fragment = u32[4];
  static constexpr AttentionUnits units = AttentionUnits::tensor;
  static constexpr u32 row_step = 8, column_step = 1;
  static constexpr int near_mate = 1, far_mate = 2;

  static constexpr bool is_here() { return has_mma_16x8x16<Half>(); }
  static __device__ __forceinline__ u32 row() { return lane_index() / 4; }
  static __device__ __forceinline__ u32 column() { return 2 * (lane_index() % 4); }
  static __device__ __forceinline__ u32 output_column(u32 n) { return 8 * n + column(); }

  template <u32 size>
  struct Left {
    LaneRows<size, Half> rows;
    __device__ __forceinline__ explicit Left(const Half* tile)
        : rows(tile, lane_index() % 16, lane_index() / 16) {}
    __device__ __forceinline__ void load(Fragment& a, u32 down, u32 k) const {
      load_matrices(a, rows.at(down, 2 * k));
    }
  };
  template <u32 size>
  struct Columns {
    LaneRows<size, Half> rows;
    __device__ __forceinline__ explicit Columns(const Half* tile)
        : rows(tile, lane_index() / 16 * 8 + lane_index() % 8, lane_index() / 8 % 2) {}
    __device__ __forceinline__ void load(Fragment& b, u32 down, u32 k) const {
      load_matrices(b, rows.at(down, 2 * k));
    }
  };
  template <u32 size>
  struct Rows {
    LaneRows<size, Half> rows;
    __device__ __forceinline__ explicit Rows(const Half* tile)
        : rows(tile, lane_index() % 16, lane_index() / 16) {}
    __device__ __forceinline__ void load(Fragment& b, u32 down, u32 chunk) const {
      load_matrices_transposed(b, rows.at(down, chunk));
    }
  };

  static __device__ __forceinline__ void load_left(Fragment& a, const HeadRows<const Half>& from, u32 k) {
    UNROLL for (u32 i = 0; i < 4; ++i) {
      const u32 row = lane_index() / 4 + 8 * (i % 2), column = 16 * k + 8 * (i / 2) + 2 * (lane_index() % 4);
      const bool take = row < from.rows && column < from.columns;
      a[i] = take ? *reinterpret_cast<const u32*>(from.row(row) + column) : 0;
    }
  }
  static __device__ __forceinline__ void product_to_left(Fragment& a, const float (&d0)[4],
                                                         const float (&d1)[4]) {
    a[0] = pair_fast<Half>(d0[0], d0[1]);
    a[1] = pair_fast<Half>(d0[2], d0[3]);
    a[2] = pair_fast<Half>(d1[0], d1[1]);
    a[3] = pair_fast<Half>(d1[2], d1[3]);
  }
  static __device__ __forceinline__ void multiply_columns(float (&d0)[4], float (&d1)[4], const Fragment& a,
                                                          const Fragment& b) {
    const u32 left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
    mma_16x8x16<Half>(d0, a, left);
    mma_16x8x16<Half>(d1, a, right);
  }
  static __device__ __forceinline__ void multiply_rows(float (&d0)[4], float (&d1)[4], const Fragment& a,
                                                       const Fragment& b) {
    multiply_columns(d0, d1, a, b);
  }

  // Lanes 2 i and 2 i + 1 need the same two blocks of Philox, in one row each.
  static __device__ __forceinline__ u32 kept_by_query_rows(const DropoutRow& dropout, u64 first, u32 stride) {
    if (stride % 4 != 0) return kept_one_by_one(dropout, first, 1, row_step * u64{stride});
    const bool odd = lane_index() % 2 != 0;
    const uint4 w = philox_words(dropout.key, (first + (odd ? row_step * u64{stride} : 0)) / 4);
    u32 words[4];
    trade_pairs(words, w, odd, near_mate);
    return kept_of(words, dropout.threshold);
  }
  // The four lanes with neighbouring keys need one word each of the same four blocks, those of d[0] ... d[3].
  // Each lane draws one block; a 4 x 4 transpose in two exchanges distributes the words.
  static __device__ __forceinline__ u32 kept_by_key_rows(const DropoutRow& dropout, u64 first, u32 stride) {
    if (stride % 4 != 0) return kept_one_by_one(dropout, first, stride, row_step);
    const u32 mine = lane_index() / 4 % 4;
    const bool high = mine >= 2, odd = mine % 2 != 0;
    const uint4 w = philox_words(dropout.key, (first + (odd ? stride : 0) + (high ? 8 : 0)) / 4);
    const u32 got0 = traded(high ? w.x : w.z, 8), got1 = traded(high ? w.y : w.w, 8);
    const u32 a0 = high ? got0 : w.x, a1 = high ? got1 : w.y;  // from the block of d[0] or d[1]
    const u32 b0 = high ? w.z : got0, b1 = high ? w.w : got1;  // from the block of d[2] or d[3]
    const u32 got_a = traded(odd ? a0 : a1, 4), got_b = traded(odd ? b0 : b1, 4);
    const u32 words[4] = {odd ? got_a : a0, odd ? a1 : got_a, odd ? got_b : b0, odd ? b1 : got_b};
    return kept_of(words, dropout.threshold);
  }
};

}  // namespace tidepool::cuda
