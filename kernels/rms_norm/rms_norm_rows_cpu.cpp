#include "kernels/rms_norm/rms_norm_rows.h"

#include <cmath>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm/rms_norm_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

float rms_lanes(const float* x, float epsilon, u64 n) {
  const float square = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
  return 1.0f / std::sqrt(square / static_cast<float>(n) + epsilon);
}

void rms_norm_lanes(const float* x, float rstd, const float* weight, const float* residual, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto normal = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, rstd));
    const auto scaled = hn::Mul(normal, hn::LoadU(d, weight + i));
    hn::StoreU(residual != nullptr ? hn::Add(hn::LoadU(d, residual + i), scaled) : scaled, d, y + i);
  });
}

// dx = rstd (g - xhat mean(g xhat)), g = dy weight.
void rms_norm_backward_lanes(const RmsNormRowBackward& r, u64 n) {
  const auto normal = [&](auto d, u64 i)
                          HWY_ATTR { return hn::Mul(hn::LoadU(d, r.x + i), hn::Set(d, r.rstd)); };
  const auto scaled = [&](auto d, u64 i)
                          HWY_ATTR { return hn::Mul(hn::LoadU(d, r.dy + i), hn::LoadU(d, r.weight + i)); };
  const float sum_gx =
      sum_lanes(n, [&](auto d, u64 i) HWY_ATTR { return hn::Mul(scaled(d, i), normal(d, i)); });
  const float mean_gx = sum_gx / static_cast<float>(n);
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto dy = hn::LoadU(d, r.dy + i);
    const auto xhat = normal(d, i);
    const auto gradient = hn::Mul(hn::NegMulAdd(xhat, hn::Set(d, mean_gx), scaled(d, i)), hn::Set(d, r.rstd));
    hn::StoreU(hn::MulAdd(dy, xhat, hn::LoadU(d, r.dweight + i)), d, r.dweight + i);
    hn::StoreU(r.add_to_dx ? hn::Add(hn::LoadU(d, r.dx + i), gradient) : gradient, d, r.dx + i);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(rms_lanes);
HWY_EXPORT(rms_norm_lanes);
HWY_EXPORT(rms_norm_backward_lanes);

float rms_of_row(const float* x, float epsilon, u64 n) {
  return HWY_DYNAMIC_DISPATCH(rms_lanes)(x, epsilon, n);
}

void rms_norm_row(const float* x, float rstd, const float* weight, const float* residual, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(rms_norm_lanes)(x, rstd, weight, residual, y, n);
}

void rms_norm_backward_row(const RmsNormRowBackward& row, u64 n) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_lanes)(row, n);
}

}  // namespace tidepool
#endif
