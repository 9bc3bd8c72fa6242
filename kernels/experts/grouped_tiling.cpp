#include "kernels/experts/grouped_tiling.h"

namespace tidepool {
namespace {

// Equal tiles of at most `most`, in runs of 16.
u32 even_tile(u32 size, u32 most) {
  if (size == 0) return 16;
  return static_cast<u32>(round_up(div_up(size, div_up(size, most)), 16));
}

}  // namespace

// Measured on two AVX2 cores at 16 to 200 rows of 1024 x 1024, with right factors in place: widths of 64 to
// 512 come within a few percent, so the width is chosen for an even load when a range has few experts. Rows
// are in one tile if possible, because each row tile widens or copies the weights again.
Tiling grouped_tiling(u32 m, u32 n) {
  return {.m = m,
          .n = n,
          .tile_rows = even_tile(m, tile_rows_max),
          .tile_cols = even_tile(n, n <= 1024 ? 128 : 256)};
}

// The largest tiles were the fastest at 16 to 200 rows, likewise: 40 GFLOP/s at 64 rows, 37 in tiles of 256 x
// 256, 33 in tiles of 256 x 128.
Tiling grouped_gradient_tiling(u32 rows, u32 columns) {
  return {.m = rows,
          .n = columns,
          .tile_rows = even_tile(rows, tile_rows_max),
          .tile_cols = even_tile(columns, tile_cols_max)};
}

}  // namespace tidepool
