#include "kernels/simd/rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/fp16-inl.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

void add_row(const float* a, const float* b, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i)
                   HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i); });
}

void scale_row(float* y, float factor, u64 n) {
  for_lanes(n, [&](auto d, u64 i)
                   HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, factor)), d, y + i); });
}

void widen_bf16_row(const u16* x, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> du32;
    const hn::Rebind<u16, decltype(d)> du16;
    const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(du32, hn::LoadU(du16, x + i)));
    hn::StoreU(hn::BitCast(d, wide), d, y + i);
  });
}

void widen_fp16_row(const u16* x, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR { hn::StoreU(load_fp16(d, x + i), d, y + i); });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(add_row);
HWY_EXPORT(scale_row);
HWY_EXPORT(widen_bf16_row);
HWY_EXPORT(widen_fp16_row);

namespace rows {

void add(float* y, const float* x, u64 n) { HWY_DYNAMIC_DISPATCH(add_row)(y, x, y, n); }
void sum(const float* a, const float* b, float* y, u64 n) { HWY_DYNAMIC_DISPATCH(add_row)(a, b, y, n); }
void scale(float* y, float factor, u64 n) { HWY_DYNAMIC_DISPATCH(scale_row)(y, factor, n); }
void widen(const u16* x, Precision precision, float* y, u64 n) {
  if (precision == Precision::bf16) return HWY_DYNAMIC_DISPATCH(widen_bf16_row)(x, y, n);
  HWY_DYNAMIC_DISPATCH(widen_fp16_row)(x, y, n);
}

void store(float* y, const float* x, u64 n, bool accumulate) {
  if (accumulate) {
    add(y, x, n);
  } else {
    std::memcpy(y, x, n * sizeof(float));
  }
}

void transpose(const float* x, u64 stride, u64 row_count, u64 columns, float* y) {
  constexpr u64 width = 8;  // output rows that are written at once: as many as ways of a first-level cache
  for (u64 begin = 0; begin < columns; begin += width) {
    const u64 n = std::min(width, columns - begin);
    for (u64 row = 0; row < row_count; ++row) {
      const float* from = x + row * stride + begin;
      for (u64 i = 0; i < n; ++i) y[(begin + i) * row_count + row] = from[i];
    }
  }
}

void column_sums(const float* x, u64 row_count, u64 columns, u64 stride, float* total, float* partial) {
  constexpr u64 group_rows = 64;
  std::memset(total, 0, columns * sizeof(float));
  for (u64 begin = 0; begin < row_count; begin += group_rows) {
    const u64 end = std::min(begin + group_rows, row_count);
    std::memcpy(partial, x + begin * stride, columns * sizeof(float));
    for (u64 row = begin + 1; row < end; ++row) add(partial, x + row * stride, columns);
    add(total, partial, columns);
  }
}

const float* widened(Param param, u64 n, float* scratch) {
  if (param.precision == Precision::fp32) return reinterpret_cast<const float*>(param.data);
  widen(reinterpret_cast<const u16*>(param.data), param.precision, scratch, n);
  return scratch;
}

const float* widened_sum(Param param, float offset, u64 n, float* scratch) {
  const float* values = widened(param, n, scratch);
  if (offset == 0) return values;
  for (u64 i = 0; i < n; ++i) scratch[i] = values[i] + offset;
  return scratch;
}

}  // namespace rows
}  // namespace tidepool
#endif
