#include "kernels/experts/grouped_tiling.h"

#include <cstdlib>

namespace tidepool {
namespace {

// Equal tiles of at most `most`, in runs of 16.
u32 even_tile(u32 size, u32 most) {
  if (size == 0) return 16;
  return static_cast<u32>(round_up(div_up(size, div_up(size, most)), 16));
}
u32 env(const char* name, u32 otherwise) {
  const char* v = std::getenv(name);
  return v != nullptr ? static_cast<u32>(std::atoi(v)) : otherwise;
}

}  // namespace

Tiling grouped_tiling(u32 m, u32 n) {
  static const u32 r = env("GR", 256), c = env("GC", 512);
  return {.m = m, .n = n, .tile_rows = even_tile(m, r), .tile_cols = even_tile(n, c)};
}

Tiling grouped_gradient_tiling(u32 rows, u32 columns) {
  static const u32 r = env("WR", 256), c = env("WC", 512);
  return {.m = rows, .n = columns, .tile_rows = even_tile(rows, r), .tile_cols = even_tile(columns, c)};
}

}  // namespace tidepool
