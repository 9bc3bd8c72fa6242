// TileScratch is the part of a worker's scratch area that a product's tile uses.
#pragma once

#include "kernels/matmul/tiling.h"

namespace tidepool {

// 16-bit weights are widened in pieces of this many rows of the inner dimension.
inline constexpr u32 widen_depth = 1024;

struct TileScratch {
  float product[tile_rows_max * tile_cols_max];  // 512 KiB
  float weight[widen_depth * tile_cols_max];     // 2 MiB
  float row[tile_cols_max];
  float partial[tile_cols_max];
};

}  // namespace tidepool
