// Second moments of gradients in factors: of a matrix only the means of its rows and of its columns are kept
// (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018). A tensor that
// is no matrix counts as one row, whose factor is 1: its moment is whole.
//
// Each line is rounded once, and `mean` is a sum in double, divided there and rounded; g is the gradient
// times `scale`:
//   s = fma(g, g, epsilon)
//   row = fma(keep, row, share * mean of s over columns)
//   column = fma(keep, column, share * mean of s over rows)
//   x = ((1 / sqrt(row / mean of row)) * (1 / sqrt(column))) * g
//   step = rate / max(1, rms of x) * x
//
// Order of sums: a tensor is cut into tiles of 256 rows and columns. In a tile a row is added up in 16 lanes,
// which then are halved until one is left; a column is added up row by row. Sums of tiles are added in double
// in the order of tiles, those of whole matrices by blocks of 256. So the bits depend on no vector's width
// and no number of threads, and a GPU makes the same.
#pragma once

#include <span>

#include "kernels/update/update.h"

namespace tidepool {

inline constexpr u32 moment_tile = 256;       // rows and columns
inline constexpr u32 moment_lanes = 16;       // of a row's sum
inline constexpr u32 moment_sum_block = 256;  // values of a whole matrix that are added up first

struct SecondMomentScalars {
  float scale = 1;
  float keep = 0, share = 1;
  float epsilon = 1e-30f;
  double rate = 0;
};

struct SecondMoments {
  float* rows = nullptr;     // [rows] of each matrix of the chunk, one after the other
  float* columns = nullptr;  // [columns] of each tensor likewise
};

// Scratch of a tensor.
struct MomentScratch {
  float* row_sums = nullptr;        // [column tiles, rows]
  float* column_sums = nullptr;     // [row tiles, columns]
  double* squares = nullptr;        // [row tiles, column tiles]
  double* blocks = nullptr;         // sums of blocks of rows or of tiles
  float* row_factors = nullptr;     // [rows]
  float* column_factors = nullptr;  // [columns]
  float* rate = nullptr;            // [1]: factor of x
};
constexpr u32 moment_tiles(u32 extent) { return static_cast<u32>(div_up(u64{extent}, u64{moment_tile})); }

// Cuts the scratch of a tensor off `memory`, from byte `taken` on. Without memory it only counts bytes.
MomentScratch take_moment_scratch(const UpdateTensor&, std::byte* memory, u64& taken);
u64 moment_scratch_bytes(std::span<const UpdateTensor>);

// Updates the moments of a chunk's tensors, and then gives their steps; 0 for padding. Takes no memory.
class FactoredSteps final : public GradientSource {
 public:
  // `chunk` has tensors and scratch. REQUIRES: the chunk outlives it.
  FactoredSteps(const UpdateChunk&, Precision, SecondMoments, const SecondMomentScalars&, CorePool&);

  void read(u64 begin, u64 end, float* out) const override;

 private:
  const UpdateChunk& chunk_;
  const Precision precision_;
  const float scale_;
};

}  // namespace tidepool
