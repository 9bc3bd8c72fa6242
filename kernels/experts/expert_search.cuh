// Finds experts in the offsets that sorting left, on the device.
#pragma once

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

// RETURNS: the expert of the range that has this row, by bisection.
// REQUIRES: row < offsets[experts]
__device__ __forceinline__ u32 expert_of_row(const i32* offsets, u32 experts, u32 row) {
  u32 low = 0, high = experts;  // offsets[low] <= row < offsets[high]
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    (static_cast<u32>(offsets[middle]) <= row ? low : high) = middle;
  }
  return low;
}

// Rows that one block has of one expert.
struct ExpertTile {
  u32 expert = 0;
  u32 begin = 0, rows = 0;  // rows: 0 past the last tile
};

// Finds tile `tile` of all experts' tiles of `tile_rows` rows, in order of experts: warp by warp sums of tile
// counts, 32 experts at a time. 128 experts take four rounds, about a microsecond beside a tile's products.
// Called by whole warps; all lanes get the result.
__device__ __forceinline__ ExpertTile find_expert_tile(const i32* offsets, u32 experts, u32 tile_rows,
                                                       u64 tile) {
  u64 passed = 0;  // tiles of earlier experts
  for (u32 first = 0; first < experts; first += warp_threads) {
    const u32 expert = first + lane_index();
    const bool is_expert = expert < experts;
    const u32 begin = is_expert ? static_cast<u32>(offsets[expert]) : 0;
    const u32 end = is_expert ? static_cast<u32>(offsets[expert + 1]) : 0;
    const u32 own = (end - begin + tile_rows - 1) / tile_rows;
    u32 through = own;  // tiles of this and earlier lanes
    for (u32 step = 1; step < warp_threads; step *= 2) {
      const u32 other = __shfl_up_sync(all_lanes, through, step);
      if (lane_index() >= step) through += other;
    }
    const u32 found = __ballot_sync(all_lanes, tile < passed + through);
    if (found != 0) {
      const int lane = __ffs(static_cast<int>(found)) - 1;
      const u32 in_expert = static_cast<u32>(tile - passed - (through - own)) * tile_rows;
      ExpertTile result = {expert, begin + in_expert, end - begin - in_expert};
      result.expert = __shfl_sync(all_lanes, result.expert, lane);
      result.begin = __shfl_sync(all_lanes, result.begin, lane);
      result.rows = __shfl_sync(all_lanes, result.rows, lane);
      result.rows = result.rows < tile_rows ? result.rows : tile_rows;
      return result;
    }
    passed += __shfl_sync(all_lanes, through, 31);
  }
  return {};
}

}  // namespace tidepool::cuda
