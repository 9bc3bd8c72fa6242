// RightFactor is the right factor [K, N] of a product on CPUs: where it is, or copied.
//
// The library reads it row by row, and rows whose distance is a multiple of 2 KiB, as with most models'
// widths, displace each other in the caches. oneDNN 2.6 on a Zen 3 core, tiles of 256 x 512, a row's length N
// in place and copied: 768 and 11008: 82 and 85 Gflop/s; 1536: 65 and 85; 1024, 3072 and 8192: 38 to 46
// and 84. Transposed factors are read where they are: the library packs them itself.
#pragma once

#include <cstring>

#include "base/types.h"

namespace tidepool {

struct RightFactor {
  const float* data = nullptr;
  u32 stride = 0;
};

// True if a copy of rows `stride` apart saves more than it costs. With few rows of the left factor it does
// not.
constexpr bool is_copied(u32 stride, u32 left_rows) { return stride % 512 == 0 && left_rows >= 32; }

// Distance of the rows of a copy: an odd number of cache lines.
constexpr u32 copied_stride(u32 columns) { return (columns + 31) / 32 * 32 + 16; }

// RETURNS: rows [0, rows) of `columns` elements. REQUIRES: `scratch` has room for them, copied_stride()
// apart.
inline RightFactor right_factor(RightFactor from, u32 rows, u32 columns, u32 left_rows, float* scratch) {
  if (!is_copied(from.stride, left_rows)) return from;
  const u32 stride = copied_stride(columns);
  for (u32 row = 0; row < rows; ++row)
    std::memcpy(scratch + u64{row} * stride, from.data + u64{row} * from.stride, columns * sizeof(float));
  return {scratch, stride};
}

}  // namespace tidepool
