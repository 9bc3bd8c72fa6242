#include "kernels/experts/expert_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/experts/expert_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

void add_scaled_lanes(float* y, const float* x, float factor, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::Set(d, factor), hn::LoadU(d, y + i)), d, y + i);
  });
}

void scaled_lanes(float* y, const float* x, float factor, u64 n) {
  for_lanes(n, [&](auto d, u64 i)
                   HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, y + i); });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(add_scaled_lanes);
HWY_EXPORT(scaled_lanes);

void add_scaled_row(float* y, const float* x, float factor, u64 n) {
  HWY_DYNAMIC_DISPATCH(add_scaled_lanes)(y, x, factor, n);
}
void scaled_row(float* y, const float* x, float factor, u64 n) {
  HWY_DYNAMIC_DISPATCH(scaled_lanes)(y, x, factor, n);
}

}  // namespace tidepool
#endif
