// TileScratch is the part of a worker's scratch area that a product's tile uses.
#pragma once

#include "kernels/matmul/tiling.h"

namespace tidepool {

// Factors come into scratch in pieces of this many rows of the inner dimension.
inline constexpr u32 scratch_depth = 1024;

// The library reads a right factor [K, N] row by row, and rows whose distance is a multiple of 1 KiB, as with
// most models' widths, displace each other in the caches (oneDNN 2.6 on a Zen core, 256 x 512 tiles, N 768
// and 11008: 82 Gflop/s; 1536: 65; 1024, 3072 and 8192: 38 to 46). Copied into rows of this length: 76 to 88
// for all.
inline constexpr u32 scratch_stride = tile_cols_max + 16;

// With fewer rows of the left factor than this, a copy of the right one costs more than it saves.
inline constexpr u32 copied_rows_min = 32;

struct TileScratch {
  float product[tile_rows_max * tile_cols_max];  // 512 KiB
  float right[scratch_depth * scratch_stride];   // 2.1 MiB
  float left[scratch_depth * tile_rows_max];     // 1 MiB
  float row[tile_cols_max];
  float partial[tile_cols_max];
};

}  // namespace tidepool
