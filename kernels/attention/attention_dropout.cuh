// Dropout's decisions for 8-column tiles of probabilities, in the layout of mma: bit i of the result is set
// if element d[i] stays. One Philox block decides four keys of a query, so lanes draw a block each and
// exchange words; that needs rows that start on a block, T a multiple of 4. Otherwise each element draws its
// own. kept_by_query_rows and kept_by_key_rows of each instruction define which lanes exchange which words;
// there `first` is element d[0], and the same key of the next query is `stride` (T) elements further.
#pragma once

#include "kernels/attention/attention_device.cuh"

namespace tidepool::cuda {

// Kernels for rare needs, soft caps and holes, serve with and without each of them and dropout, and ask at
// run time.
template <bool rare>
__device__ __forceinline__ bool drops(const DropoutRow& dropout) {
  return !rare || dropout.threshold != 0;
}
inline constexpr u32 all_kept = ~u32{0};

__device__ __forceinline__ u32 kept_of(const u32 (&words)[4], u32 threshold) {
  u32 kept = 0;
  UNROLL for (u32 i = 0; i < 4; ++i) kept |= u32{words[i] >= threshold} << i;
  return kept;
}

__device__ __forceinline__ u32 traded(u32 word, int lanes) { return __shfl_xor_sync(all_lanes, word, lanes); }

// Two lanes need the same two blocks: the even lane draws the block of words 0 and 1, the odd lane that of
// words 2 and 3. Even lanes use a block's x and y, odd lanes z and w.
__device__ __forceinline__ void trade_pairs(u32 (&words)[4], const uint4& w, bool odd, int lanes) {
  const u32 got0 = traded(odd ? w.x : w.z, lanes), got1 = traded(odd ? w.y : w.w, lanes);
  words[0] = odd ? got0 : w.x;
  words[1] = odd ? got1 : w.y;
  words[2] = odd ? w.z : got0;
  words[3] = odd ? w.w : got1;
}

// d[1] is `across` elements after d[0], d[2] `below`.
__device__ __forceinline__ u32 kept_one_by_one(const DropoutRow& dropout, u64 first, u64 across, u64 below) {
  return u32{dropout_keeps(dropout, first)} | u32{dropout_keeps(dropout, first + across)} << 1 |
         u32{dropout_keeps(dropout, first + below)} << 2 |
         u32{dropout_keeps(dropout, first + below + across)} << 3;
}

// Bits 4 n ... 4 n + 3 are `kept_of_tile(n)`. The loop stays rolled: ten rounds of all tiles at once would
// take the registers that the products need.
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
