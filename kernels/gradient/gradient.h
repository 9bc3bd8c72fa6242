// Turns gradient accumulators into the finished gradient and its norm.
#pragma once

#include <span>

#include "tidepool/chunk.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Norm partials: one fp64 sum of squares per this many elements, counted from each window's start. A partial
// is the sum, in order, of the partials of its cells. Cuts fall between cells, so devices that share a
// granule make exactly the bits that one device would.
inline constexpr u64 norm_cell_elements = cut_alignment_elements;
static_assert(norm_granule_elements % norm_cell_elements == 0);

// Sums `accumulators` (fp32, one per use, in order) element by element, rounds once to the transfer
// precision, and writes to `grad`: bf16 or fp16, or in fp32 the first accumulator itself (grad ==
// accumulators[0]).
void finish_gradient(std::span<const float* const> accumulators, std::byte* grad, Precision, u64 elements,
                     CorePool&);

// Norm partials of a finished gradient, from exactly the values the update reads.
// partials: [div_up(elements, norm_granule_elements)].
void norm_partials(const std::byte* grad, Precision, u64 elements, std::span<double> partials, CorePool&);
// The same by cell, for less than a granule. cells: [div_up(elements, norm_cell_elements)].
void norm_cells(const std::byte* grad, Precision, u64 elements, std::span<double> cells);

// sum[i] = parts[0][i] + parts[1][i] + ..., left to right: the bits of accumulating them one after the other.
void sum_in_order(std::span<const float* const> parts, float* sum, u64 elements, CorePool&);

// bf16 rounding of this project: (bits + 0x8000) >> 16, NaN canonical. Low is the signed remainder.
u16 bf16_from_float(float);
float float_from_bf16(u16 high);
float float_from_split(u16 high, u16 low);
u16 low_from_float(float);  // satisfies float_from_split(bf16_from_float(x), low_from_float(x)) == x

}  // namespace tidepool
