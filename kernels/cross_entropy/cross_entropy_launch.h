// Launch shapes of the device's cross-entropy.
#pragma once

#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// One block per row of a slice; a thread takes 8 columns at a time. A slice of 8192 columns gives each of 256
// threads four turns, whose loads do not wait for each other.
constexpr LaunchShape cross_entropy_launch(u32 rows, u32 columns) {
  const u64 threads = round_up(div_up(columns, 8), warp_threads);
  return {.grid = {rows}, .block = {static_cast<u32>(threads < 256 ? threads : 256)}};
}

// One block sums the losses of all rows, so that blocks need no shared memory in global memory: 16 Ki rows
// are 16 logarithms per thread, about 20 us.
inline constexpr u32 loss_threads = 1024;

}  // namespace tidepool::cuda
