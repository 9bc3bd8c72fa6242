// Launch shapes of the rows of latent attention on the device.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/latent/latent.h"

namespace tidepool::cuda {

inline constexpr u32 latent_threads = 128;

// One block per row: its angles are computed once for all its heads.
constexpr LaunchShape latent_rows_launch(u32 rows) { return {.grid = {rows}, .block = {latent_threads}}; }

// A thread takes eight columns of a row at a time.
constexpr LaunchShape copy_columns_launch(u32 rows, u32 columns) {
  return elementwise_launch(rows * div_up(columns, u64{vector_elements}), 1);
}

}  // namespace tidepool::cuda
