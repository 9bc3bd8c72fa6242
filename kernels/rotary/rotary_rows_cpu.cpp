#include "kernels/rotary/rotary_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary/rotary_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

void rotate_lanes(const float* x, const float* cosine, const float* sine, float* y, u64 half) {
  for_lanes(half, [&](auto d, u64 i) HWY_ATTR {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + half);
    const auto c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, y + i);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, y + i + half);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(rotate_lanes);

void rotate_row(const float* x, const float* cosine, const float* sine, float* y, u64 half) {
  HWY_DYNAMIC_DISPATCH(rotate_lanes)(x, cosine, sine, y, half);
}

}  // namespace tidepool
#endif
