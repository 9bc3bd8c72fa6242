// How the device's layer normalisation is cut into blocks.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/layer_norm/layer_norm.h"

namespace tidepool::cuda {

// A block per row: a thread has 8 columns at a time, and never more than 512 threads wait for each other.
constexpr LaunchShape layer_norm_launch(u32 rows, u32 columns) {
  const u64 threads = round_up(div_up(columns, 8), warp_threads);
  return {.grid = {rows}, .block = {static_cast<u32>(threads < 512 ? threads : 512)}};
}

// Partial sums of dweight and dbias: 32 threads beside each other take 8 columns each, 8 threads share the rows
// of a group; their sums meet in shared memory.
inline constexpr u32 layer_norm_tile_columns = 256, layer_norm_tile_threads_y = 8;
constexpr LaunchShape layer_norm_partials_launch(u32 rows, u32 columns) {
  // Groups lie along x: there may be more of them than y allows.
  return {.grid = {static_cast<u32>(div_up(rows, layer_norm_group_rows)),
                   static_cast<u32>(div_up(columns, layer_norm_tile_columns))},
          .block = {warp_threads, layer_norm_tile_threads_y}};
}

// Sums over groups: a thread per column of [dweight, dbias].
constexpr LaunchShape layer_norm_sum_launch(u32 columns) {
  return {.grid = {static_cast<u32>(div_up(u64{2} * columns, 128))}, .block = {128}};
}

}  // namespace tidepool::cuda
