// Tiling cuts a product into tiles. A pure function of the product's shape: never of threads, chunks,
// budgets.
#pragma once

#include "base/types.h"

namespace tidepool {

struct Tile {
  u32 row = 0, col = 0;  // in the result
  u32 rows = 0, cols = 0;
};

// Row tiles vary fastest, so the partial last columns come last and fill idle cores.
struct Tiling {
  u32 m = 0, n = 0;
  u32 tile_rows = 0, tile_cols = 0;

  u32 row_tiles() const { return static_cast<u32>(div_up(m, tile_rows)); }
  u32 col_tiles() const { return static_cast<u32>(div_up(n, tile_cols)); }
  u32 count() const { return row_tiles() * col_tiles(); }
  Tile tile(u32 index) const;
};

inline constexpr u32 tile_rows_max = 256;
inline constexpr u32 tile_cols_max = 512;

Tiling matmul_tiling(u32 m, u32 n);

}  // namespace tidepool
