// Launch shapes of the device's embedding backward.
#pragma once

#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// A block owns its threads' columns, 8 per thread, of one run of equal tokens or of one position, so each sum
// has one writer. Rows lie along x, whose limit is high enough for any number of rows.
inline constexpr u32 embedding_threads_max = 128;
constexpr LaunchShape embedding_backward_launch(u32 rows, u32 columns) {
  const u64 all = round_up(div_up(columns, 8), warp_threads);
  const u32 threads = static_cast<u32>(all < embedding_threads_max ? all : embedding_threads_max);
  return {.grid = {rows, static_cast<u32>(div_up(columns, u64{8} * threads))}, .block = {threads}};
}

// Sorting: a block holds a tile of keys in shared memory (16 KiB), two keys per thread.
inline constexpr u32 sort_tile_keys = 2048;
constexpr LaunchShape sort_tiles_launch(u32 keys) {
  return {.grid = {static_cast<u32>(div_up(keys, sort_tile_keys))}, .block = {sort_tile_keys / 2}};
}
// One thread per pair of keys, in runs of `run` keys, of which the last may be short.
constexpr LaunchShape sort_pairs_launch(u32 keys, u64 run) {
  return {.grid = {static_cast<u32>(div_up(round_up(keys, run) / 2, 256))}, .block = {256}};
}

}  // namespace tidepool::cuda
