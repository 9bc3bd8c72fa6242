// TileScratch is the part of a worker's scratch area that a product's tile uses.
#pragma once

#include "kernels/matmul/right_factor.h"
#include "kernels/matmul/tiling.h"

namespace tidepool {

// Factors come into scratch in pieces of this many rows of the inner dimension.
inline constexpr u32 scratch_depth = 1024;

struct TileScratch {
  float product[tile_rows_max * tile_cols_max];               // 512 KiB
  float right[scratch_depth * copied_stride(tile_cols_max)];  // 2.1 MiB
  float left[scratch_depth * tile_rows_max];                  // 1 MiB
  float row[tile_cols_max];
  float partial[tile_cols_max];
};

}  // namespace tidepool
