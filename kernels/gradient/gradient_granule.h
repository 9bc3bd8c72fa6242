// Sums, rounds and squares at most one granule with this CPU's vectors.
#pragma once

#include "kernels/gradient/gradient.h"

namespace tidepool {

// sum[i] = accumulators[0][i + begin] + accumulators[1][i + begin] + ..., left to right.
void sum_accumulators(std::span<const float* const> accumulators, u64 begin, float* sum, u64 elements);
void round_to_half(const float* x, u16* y, Precision, u64 elements);  // bf16 or fp16

// Sum of squares in fp64: element i goes to lane i % 16, in order; then lanes i and i + 8 are added, then i
// and i + 4, i + 2, i + 1. So the bits do not depend on the width of the vectors.
double sum_squares(const std::byte* x, Precision, u64 elements);

}  // namespace tidepool
