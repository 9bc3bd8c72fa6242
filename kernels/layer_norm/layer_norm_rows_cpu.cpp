#include "kernels/layer_norm/layer_norm_rows.h"

#include <cmath>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm/layer_norm_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

RowMoments layer_norm_lanes(const float* x, const float* weight, const float* bias, float epsilon, float* y,
                            u64 n) {
  const float count = static_cast<float>(n);
  const float mean = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR { return hn::LoadU(d, x + i); }) / count;
  const float square = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(centred, centred);
  });
  const float rstd = 1.0f / std::sqrt(square / count + epsilon);
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    const auto normal = hn::Mul(centred, hn::Set(d, rstd));
    hn::StoreU(hn::MulAdd(normal, hn::LoadU(d, weight + i), hn::LoadU(d, bias + i)), d, y + i);
  });
  return {mean, rstd};
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy weight.
void layer_norm_backward_lanes(const LayerNormRowBackward& r, u64 n) {
  const float mean = r.moments.mean, rstd = r.moments.rstd;
  const auto normal = [&](auto d, u64 i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, mean)), hn::Set(d, rstd));
  };
  const auto scaled = [&](auto d, u64 i)
                          HWY_ATTR { return hn::Mul(hn::LoadU(d, r.dy + i), hn::LoadU(d, r.weight + i)); };
  const float count = static_cast<float>(n);
  const float mean_g = sum_lanes(n, scaled) / count;
  const float mean_gx =
      sum_lanes(n, [&](auto d, u64 i) HWY_ATTR { return hn::Mul(scaled(d, i), normal(d, i)); }) / count;
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto dy = hn::LoadU(d, r.dy + i);
    const auto xhat = normal(d, i);
    hn::StoreU(hn::MulAdd(dy, xhat, hn::LoadU(d, r.dweight + i)), d, r.dweight + i);
    hn::StoreU(hn::Add(dy, hn::LoadU(d, r.dbias + i)), d, r.dbias + i);
    const auto inner = hn::NegMulAdd(xhat, hn::Set(d, mean_gx), hn::Sub(scaled(d, i), hn::Set(d, mean_g)));
    const auto gradient = hn::Mul(inner, hn::Set(d, rstd));
    hn::StoreU(r.add_to_dx ? hn::Add(hn::LoadU(d, r.dx + i), gradient) : gradient, d, r.dx + i);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(layer_norm_lanes);
HWY_EXPORT(layer_norm_backward_lanes);

RowMoments layer_norm_row(const float* x, const float* weight, const float* bias, float epsilon, float* y,
                          u64 n) {
  return HWY_DYNAMIC_DISPATCH(layer_norm_lanes)(x, weight, bias, epsilon, y, n);
}

void layer_norm_backward_row(const LayerNormRowBackward& row, u64 n) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_lanes)(row, n);
}

}  // namespace tidepool
#endif
