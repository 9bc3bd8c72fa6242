// Dropout's decisions for 8-column tiles of probabilities, as mma leaves them: bit i of the result is set
// where element d[i] stays. One Philox block decides four keys of a query, so lanes draw a block each and
// trade words; that needs rows that start on a block, T a multiple of 4. Elsewhere each element draws its
// own.
#pragma once

#include "kernels/attention/attention_device.cuh"

namespace tidepool::cuda {

__device__ __forceinline__ u32 kept_of(const u32 (&words)[4], u32 threshold) {
  u32 kept = 0;
  UNROLL for (u32 i = 0; i < 4; ++i) kept |= u32{words[i] >= threshold} << i;
  return kept;
}

__device__ __forceinline__ u32 traded(u32 word, int lanes) { return __shfl_xor_sync(all_lanes, word, lanes); }

// Rows are queries, columns keys. d[0] is element `first`; a query below is `stride` (T) elements on.
__device__ __forceinline__ u32 kept_by_query_rows(const DropoutRow& dropout, u64 first, u32 stride) {
  const u64 below = first + 8 * u64{stride};
  if (stride % 4 != 0) {
    return u32{dropout_keeps(dropout, first)} | u32{dropout_keeps(dropout, first + 1)} << 1 |
           u32{dropout_keeps(dropout, below)} << 2 | u32{dropout_keeps(dropout, below + 1)} << 3;
  }
  // Lanes 2 i and 2 i + 1 have the same two blocks: the even one draws that of d[0], the odd one that of
  // d[2].
  const bool odd = lane_index() % 2 != 0;
  const uint4 w = philox_words(dropout.key, (odd ? below : first) / 4);
  const u32 got0 = traded(odd ? w.x : w.z, 1), got1 = traded(odd ? w.y : w.w, 1);
  const u32 words[4] = {odd ? got0 : w.x, odd ? got1 : w.y, odd ? w.z : got0, odd ? w.w : got1};
  return kept_of(words, dropout.threshold);
}

// Rows are keys, columns queries. d[0] is element `first`; the next query is `stride` elements on.
__device__ __forceinline__ u32 kept_by_key_rows(const DropoutRow& dropout, u64 first, u32 stride) {
  if (stride % 4 != 0) {
    return u32{dropout_keeps(dropout, first)} | u32{dropout_keeps(dropout, first + stride)} << 1 |
           u32{dropout_keeps(dropout, first + 8)} << 2 | u32{dropout_keeps(dropout, first + stride + 8)} << 3;
  }
  // The four lanes with neighbouring keys need one word each of the same four blocks, those of d[0] ... d[3].
  // Each draws one; then a 4 x 4 transpose in two trades.
  const u32 mine = lane_index() / 4 % 4;
  const bool high = mine >= 2, odd = mine % 2 != 0;
  const uint4 w = philox_words(dropout.key, (first + (odd ? stride : 0) + (high ? 8 : 0)) / 4);
  const u32 got0 = traded(high ? w.x : w.z, 8), got1 = traded(high ? w.y : w.w, 8);
  const u32 a0 = high ? got0 : w.x, a1 = high ? got1 : w.y;  // of the block of d[0] or d[1]
  const u32 b0 = high ? w.z : got0, b1 = high ? w.w : got1;  // of d[2] or d[3]
  const u32 got_a = traded(odd ? a0 : a1, 4), got_b = traded(odd ? b0 : b1, 4);
  const u32 words[4] = {odd ? got_a : a0, odd ? a1 : got_a, odd ? got_b : b0, odd ? b1 : got_b};
  return kept_of(words, dropout.threshold);
}

// Bits 4 n ... 4 n + 3: `kept_of_tile(n)`. Rolled: unrolled, ten rounds of each tile at once would take the
// registers that the products need.
template <u32 tiles, class Fn>
__device__ __forceinline__ u32 kept_in_tiles(Fn kept_of_tile) {
  static_assert(tiles <= 8);
  u32 kept = 0;
  KEEP_ROLLED for (u32 n = 0; n < tiles; ++n) kept |= kept_of_tile(n) << 4 * n;
  return kept;
}
__device__ __forceinline__ bool is_kept_in_tile(u32 kept, u32 n, u32 i) {
  return (kept >> (4 * n + i) & 1) != 0;
}

}  // namespace tidepool::cuda
