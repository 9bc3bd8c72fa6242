// Launch shapes of the device's normalisations over rows.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/norm/norm_groups.h"

namespace tidepool::cuda {

// One block per row; a thread takes 8 columns at a time, and at most 512 threads wait for each other.
constexpr LaunchShape norm_rows_launch(u32 rows, u32 columns) {
  const u64 threads = round_up(div_up(columns, 8), warp_threads);
  return {.grid = {rows}, .block = {static_cast<u32>(threads < 512 ? threads : 512)}};
}

// Partial sums of the weights' gradients: 32 neighbouring threads take 8 columns each, 8 threads share the
// rows of a group; shared memory adds their sums.
inline constexpr u32 norm_tile_columns = 256, norm_tile_threads_y = 8;
constexpr LaunchShape norm_tiles_launch(u32 rows, u32 columns) {
  // Groups lie along x, because y allows too few of them.
  return {.grid = {norm_groups(rows), static_cast<u32>(div_up(columns, norm_tile_columns))},
          .block = {warp_threads, norm_tile_threads_y}};
}

// Sums over groups: one thread per column of each of `kinds` sums.
constexpr LaunchShape norm_sums_launch(u32 kinds, u32 columns) {
  return {.grid = {static_cast<u32>(div_up(u64{kinds} * columns, 128))}, .block = {128}};
}

}  // namespace tidepool::cuda
