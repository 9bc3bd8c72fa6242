// RightFactor is the right factor [K, N] of a product on CPUs: where it is, or copied.
//
// The library reads it row by row, and rows whose distance is a multiple of 2 KiB, as with most models'
// widths, displace each other in the caches. Gflop/s of oneDNN 2.6 on a Zen 3 core in tiles of 256 x 512, in
// place and copied, by the length of a row: 768 83 and 87, 1536 65 and 89, 11008 82 and 83; 1024, 2048, 3072,
// 5120 and 8192 38 to 47 and 80 to 87. Transposed factors in fp32 are read where they are: the library packs
// them itself.
#pragma once

#include <cstring>

#include "base/types.h"

namespace tidepool {

struct RightFactor {
  const float* data = nullptr;
  u32 stride = 0;
};

inline constexpr u32 displacing_stride = 512;  // in elements
inline constexpr u32 left_rows_min = 32;       // with fewer, a copy costs more than it saves

// RETURNS: true if rows `stride` apart are copied for a product with `left_rows` rows of the left factor.
constexpr bool is_copied(u32 stride, u32 left_rows) {
  return stride % displacing_stride == 0 && left_rows >= left_rows_min;
}

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
