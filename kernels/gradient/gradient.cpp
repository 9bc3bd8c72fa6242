#include "kernels/gradient/gradient.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/gradient/gradient_granule.h"

namespace tidepool {
namespace {

constexpr u64 piece_elements = 2 * kib;  // summed on the stack (8 KiB) and rounded from there

void round_sums(std::span<const float* const> accumulators, u64 begin, u64 end, Precision precision,
                u16* grad) {
  alignas(64) float sum[piece_elements];
  for (; begin < end; begin += piece_elements) {
    const u64 n = std::min(piece_elements, end - begin);
    sum_accumulators(accumulators, begin, sum, n);
    round_to_half(sum, grad + begin, precision, n);
  }
}

template <class Fn>
void for_each_granule(u64 elements, CorePool& pool, Fn&& fn) {
  const u64 granules = div_up(elements, norm_granule_elements);
  CHECK(granules < none, granules);
  parallel_for(pool, Priority::normal, static_cast<u32>(granules), [&](u32 granule, u32) {
    const u64 begin = granule * norm_granule_elements;
    fn(granule, begin, std::min(elements, begin + norm_granule_elements));
  });
}

}  // namespace

void finish_gradient(std::span<const float* const> accumulators, std::byte* grad, Precision precision,
                     u64 elements, CorePool& pool) {
  CHECK(!accumulators.empty());
  if (precision != Precision::fp32) {
    u16* rounded = reinterpret_cast<u16*>(grad);
    for_each_granule(elements, pool, [&](u64, u64 begin, u64 end) {
      round_sums(accumulators, begin, end, precision, rounded);
    });
    return;
  }
  float* sum = reinterpret_cast<float*>(grad);
  CHECK(sum == accumulators[0]);
  if (accumulators.size() == 1) return;
  for_each_granule(elements, pool, [&](u64, u64 begin, u64 end) {
    sum_accumulators(accumulators, begin, sum + begin, end - begin);
  });
}

void sum_in_order(std::span<const float* const> parts, float* sum, u64 elements, CorePool& pool) {
  for_each_granule(elements, pool, [&](u64, u64 begin, u64 end) {
    sum_accumulators(parts, begin, sum + begin, end - begin);
  });
}

namespace {

double cell_sum(const std::byte* grad, Precision precision, u64 begin, u64 end) {
  return sum_squares(grad + begin * value_bytes(precision), precision, end - begin);
}

}  // namespace

void norm_partials(const std::byte* grad, Precision precision, u64 elements, std::span<double> partials,
                   CorePool& pool) {
  CHECK(partials.size() == div_up(elements, norm_granule_elements), partials.size(), elements);
  for_each_granule(elements, pool, [&](u64 granule, u64 begin, u64 end) {
    double sum = 0;
    for (; begin < end; begin += norm_cell_elements)
      sum += cell_sum(grad, precision, begin, std::min(end, begin + norm_cell_elements));
    partials[granule] = sum;
  });
}

void norm_cells(const std::byte* grad, Precision precision, u64 elements, std::span<double> cells) {
  CHECK(cells.size() == div_up(elements, norm_cell_elements), cells.size(), elements);
  for (u64 cell = 0; cell < cells.size(); ++cell) {
    const u64 begin = cell * norm_cell_elements;
    cells[cell] = cell_sum(grad, precision, begin, std::min(elements, begin + norm_cell_elements));
  }
}

namespace {
u32 canonical_bits(float x) { return x != x ? 0x7fc0'0000u : std::bit_cast<u32>(x); }
}  // namespace

u16 bf16_from_float(float x) { return static_cast<u16>((canonical_bits(x) + 0x8000u) >> 16); }
u16 low_from_float(float x) { return static_cast<u16>(canonical_bits(x)); }
float float_from_bf16(u16 high) { return std::bit_cast<float>(u32{high} << 16); }
float float_from_split(u16 high, u16 low) {
  const u32 remainder = static_cast<u32>(static_cast<i32>(static_cast<std::int16_t>(low)));
  return std::bit_cast<float>((u32{high} << 16) + remainder);
}

}  // namespace tidepool
