#include "kernels/attention/softmax_rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/softmax_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

float softmax_lanes(float* s, u64 n, float scale, OnlineSoftmax& running) {
  const float maximum = std::max(running.maximum, scale * max_lanes(s, n));
  const float factor = std::exp(running.maximum - maximum);
  const float sum = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto x = hn::MulAdd(hn::LoadU(d, s + i), hn::Set(d, scale), hn::Set(d, -maximum));
    const auto p = exp_lanes(d, x);
    hn::StoreU(p, d, s + i);
    return p;
  });
  running = {maximum, running.sum * factor + sum};
  return factor;
}

void softmax_backward_lanes(const SoftmaxBackward& r, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto scale = hn::Set(d, r.scale);
    const auto p = exp_lanes(d, hn::MulAdd(hn::LoadU(d, r.s + i), scale, hn::Set(d, -r.lse)));
    const auto rise = hn::Sub(hn::LoadU(d, r.dp + i), hn::Set(d, r.delta));
    hn::StoreU(p, d, r.s + i);
    hn::StoreU(hn::Mul(hn::Mul(p, scale), rise), d, r.dp + i);
  });
}

void capped_softmax_backward_lanes(const SoftmaxBackward& r, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto scale = hn::Set(d, r.scale);
    const auto s = capped_lanes(d, hn::LoadU(d, r.s + i), r.raw_cap);
    const auto p = exp_lanes(d, hn::MulAdd(s.value, scale, hn::Set(d, -r.lse)));
    const auto rise = hn::Sub(hn::LoadU(d, r.dp + i), hn::Set(d, r.delta));
    hn::StoreU(p, d, r.s + i);
    hn::StoreU(hn::Mul(hn::Mul(hn::Mul(p, scale), rise), s.slope), d, r.dp + i);
  });
}

float dot_lanes(const float* a, const float* b, u64 n) {
  return sum_lanes(n,
                   [&](auto d, u64 i) HWY_ATTR { return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)); });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(softmax_lanes);
HWY_EXPORT(softmax_backward_lanes);
HWY_EXPORT(capped_softmax_backward_lanes);
HWY_EXPORT(dot_lanes);

float softmax_row(float* s, u64 n, float scale, OnlineSoftmax& running) {
  return HWY_DYNAMIC_DISPATCH(softmax_lanes)(s, n, scale, running);
}

void softmax_backward_row(const SoftmaxBackward& row, u64 n) {
  if (row.raw_cap != 0) return HWY_DYNAMIC_DISPATCH(capped_softmax_backward_lanes)(row, n);
  HWY_DYNAMIC_DISPATCH(softmax_backward_lanes)(row, n);
}

float dot_row(const float* a, const float* b, u64 n) { return HWY_DYNAMIC_DISPATCH(dot_lanes)(a, b, n); }

}  // namespace tidepool
#endif
