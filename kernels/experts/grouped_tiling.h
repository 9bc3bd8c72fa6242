// Cuts one expert's product into tiles: a pure function of the expert's own rows and of the product's shape.
#pragma once

#include "kernels/matmul/tiling.h"

namespace tidepool {

// Tiles of [m, n], at most tile_rows_max x tile_cols_max, in runs of 16.
Tiling grouped_tiling(u32 m, u32 n);
// Tiles of an expert's gradient [rows, columns], whatever the expert's rows.
Tiling grouped_gradient_tiling(u32 rows, u32 columns);

}  // namespace tidepool
