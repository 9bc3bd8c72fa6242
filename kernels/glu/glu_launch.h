// Launch shapes of the device's gated linear units.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/glu/glu.h"

namespace tidepool::cuda {

// Vectors of a row of y; the last may be short.
constexpr u64 glu_row_vectors(u32 columns) { return div_up(u64{columns}, vector_elements); }
constexpr LaunchShape glu_launch(u32 rows, u32 columns) {
  return elementwise_launch(rows * glu_row_vectors(columns), 1);
}
// With routing weights: a block per row, in a loop over rows.
constexpr LaunchShape weighted_glu_launch(u32 rows, u32 columns) {
  const u64 threads = round_up(glu_row_vectors(columns), warp_threads);
  return {.grid = elementwise_launch(rows, 1, 1).grid,
          .block = {static_cast<u32>(threads < 256 ? threads : 256)}};
}

}  // namespace tidepool::cuda
