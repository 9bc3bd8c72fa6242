// Launch shapes of the device's helpers of matrix products.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// Column sums: a block has 256 columns (32 threads with 8 each) and one part of the rows, which 8 threads
// share. The parts are then summed in order. The number of parts depends on rows alone, never on the device,
// which would change bits.
inline constexpr u32 column_sums_tile = 256, column_sums_threads_y = 8;
inline constexpr u32 column_sums_rows_min = 128;  // a smaller part's reads no longer hide its start
inline constexpr u32 column_sums_parts_max =
    64;  // with 16 tiles of 4096 columns: 1024 blocks, 7 for each SM of 132
constexpr u32 column_sums_parts(u32 rows) {
  return static_cast<u32>(std::clamp<u64>(div_up(rows, column_sums_rows_min), 1, column_sums_parts_max));
}
constexpr LaunchShape column_sums_launch(u32 rows, u32 columns) {
  return {.grid = {static_cast<u32>(div_up(columns, column_sums_tile)), column_sums_parts(rows)},
          .block = {warp_threads, column_sums_threads_y}};
}
constexpr LaunchShape sum_of_parts_launch(u32 columns) {
  return {.grid = {static_cast<u32>(div_up(columns, 128))}, .block = {128}};
}

// Converts rows of a matrix to another precision; a thread has 8 neighbours.
constexpr LaunchShape convert_launch(u32 rows, u32 columns) {
  return {.grid = {static_cast<u32>(div_up(div_up(columns, 8), 128)), std::min(rows, grid_yz_max)},
          .block = {128}};
}

}  // namespace tidepool::cuda
