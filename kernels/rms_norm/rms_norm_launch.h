// How the device's RMS norm is cut into blocks.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/rms_norm/rms_norm.h"

namespace tidepool::cuda {

// A block per row: a thread has 8 columns at a time, and never more than 512 threads wait for each other.
constexpr LaunchShape rms_norm_launch(u32 rows, u32 columns) {
  const u64 threads = round_up(div_up(columns, 8), warp_threads);
  return {.grid = {rows}, .block = {static_cast<u32>(threads < 512 ? threads : 512)}};
}

// Partial sums of dweight: 32 threads beside each other take 8 columns each, 8 threads share the rows of a
// group; their sums meet in shared memory.
inline constexpr u32 rms_norm_tile_columns = 256, rms_norm_tile_threads_y = 8;
constexpr LaunchShape rms_norm_partials_launch(u32 rows, u32 columns) {
  // Groups lie along x: there may be more of them than y allows.
  return {.grid = {static_cast<u32>(div_up(rows, rms_norm_group_rows)),
                   static_cast<u32>(div_up(columns, rms_norm_tile_columns))},
          .block = {warp_threads, rms_norm_tile_threads_y}};
}

// Sums over groups: a thread per column.
constexpr LaunchShape rms_norm_sum_launch(u32 columns) {
  return {.grid = {static_cast<u32>(div_up(u64{columns}, 128))}, .block = {128}};
}

}  // namespace tidepool::cuda
