// From accumulators to the finished gradient and its norm.
#pragma once

#include <span>

#include "tidepool/chunk.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Norm partials: one fp64 sum of squares per this many elements, counted from each tensor's start.
inline constexpr u64 norm_granule_elements = 64 * kib;

// Sums `accumulators` (fp32, one per use, in order) element by element, rounds once to the transfer
// precision, and writes it to `grad`: bf16, or in fp32 the first accumulator itself (grad == it).
void finish_gradient(std::span<const float* const> accumulators, std::byte* grad, Precision, u64 elements,
                     CorePool&);

// Partials of one tensor's finished gradient, from exactly the values the update reads.
// partials: [div_up(elements, norm_granule_elements)].
void norm_partials(const std::byte* grad, Precision, u64 elements, std::span<double> partials, CorePool&);

// bf16 as the design rounds it: (bits + 0x8000) >> 16, NaN canonical. Low is the signed remainder.
u16 bf16_from_float(float);
float float_from_bf16(u16 high);
float float_from_split(u16 high, u16 low);
u16 low_from_float(float);  // so that float_from_split(bf16_from_float(x), low_from_float(x)) == x

}  // namespace tidepool
