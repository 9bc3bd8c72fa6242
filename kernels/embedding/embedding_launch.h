// How the device's embedding backward is cut into blocks.
#pragma once

#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// A block owns the columns that its threads take, 8 each, of one run of equal tokens or of one position: sums
// have one writer. Rows lie along x, where there may be any number of them.
inline constexpr u32 embedding_threads_max = 128;
constexpr LaunchShape embedding_backward_launch(u32 rows, u32 columns) {
  const u64 all = round_up(div_up(columns, 8), warp_threads);
  const u32 threads = static_cast<u32>(all < embedding_threads_max ? all : embedding_threads_max);
  return {.grid = {rows, static_cast<u32>(div_up(columns, u64{8} * threads))}, .block = {threads}};
}

// Sorting: a block has a tile of keys in shared memory (16 KiB), a thread two of them.
inline constexpr u32 sort_tile_keys = 2048;
constexpr LaunchShape sort_tiles_launch(u32 keys) {
  return {.grid = {static_cast<u32>(div_up(keys, sort_tile_keys))}, .block = {sort_tile_keys / 2}};
}
// A pair of keys per thread; runs of `run` keys, the last of them perhaps short.
constexpr LaunchShape sort_pairs_launch(u32 keys, u64 run) {
  return {.grid = {static_cast<u32>(div_up(round_up(keys, run) / 2, 256))}, .block = {256}};
}

}  // namespace tidepool::cuda
