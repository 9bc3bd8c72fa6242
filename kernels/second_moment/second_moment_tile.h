// Tiles of second moments in factors, for this CPU's vectors.
#pragma once

#include "tidepool/chunk.h"

namespace tidepool {

// Rows and columns of a matrix with `stride` columns: at most 256 of each, but for moment_steps().
struct MomentTile {
  const std::byte* grad = nullptr;
  u64 stride = 0;
  u32 rows = 0, columns = 0;
  float scale = 1;
};

// Sums of fma(g, g, epsilon) of each row and of each column.
void moment_sums(const MomentTile&, Precision, float epsilon, float* rows, float* columns);
// RETURNS: the sum of squares of (row * column) * g, by factors of rows and columns.
double moment_squares(const MomentTile&, Precision, const float* rows, const float* columns);
// out = rate * ((row * column) * g) of the first row.
void moment_steps(const MomentTile&, Precision, float row, const float* columns, float rate, float* out);

}  // namespace tidepool
