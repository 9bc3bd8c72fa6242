#include "kernels/cross_entropy/logits_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy/logits_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

float max_of_logits(const float* x, u64 n) { return max_lanes(x, n); }

float sum_exp_lanes(const float* x, float minus, u64 n) {
  return sum_lanes(n, [&](auto d, u64 i)
                          HWY_ATTR { return exp_lanes(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, minus))); });
}

float sum_of_logits(const float* x, u64 n) {
  return sum_lanes(n, [&](auto d, u64 i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

float capped_sum_of_logits(const float* x, float cap, u64 n) {
  return sum_lanes(n,
                   [&](auto d, u64 i) HWY_ATTR { return capped_lanes(d, hn::LoadU(d, x + i), cap).value; });
}

void scaled_exp_lanes(float* x, float minus, float scale, float less, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto e = exp_lanes(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, minus)));
    hn::StoreU(hn::Sub(hn::Mul(e, hn::Set(d, scale)), hn::Set(d, less)), d, x + i);
  });
}

float capped_sum_exp_lanes(const float* x, float cap, float minus, u64 n) {
  return sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    return exp_lanes(d, hn::Sub(capped_lanes(d, hn::LoadU(d, x + i), cap).value, hn::Set(d, minus)));
  });
}

void capped_scaled_exp_lanes(float* x, float cap, float minus, float scale, float less, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto y = capped_lanes(d, hn::LoadU(d, x + i), cap);
    const auto e = exp_lanes(d, hn::Sub(y.value, hn::Set(d, minus)));
    const auto gradient = hn::Sub(hn::Mul(e, hn::Set(d, scale)), hn::Set(d, less));
    hn::StoreU(hn::Mul(gradient, y.slope), d, x + i);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(max_of_logits);
HWY_EXPORT(sum_exp_lanes);
HWY_EXPORT(sum_of_logits);
HWY_EXPORT(capped_sum_of_logits);
HWY_EXPORT(scaled_exp_lanes);
HWY_EXPORT(capped_sum_exp_lanes);
HWY_EXPORT(capped_scaled_exp_lanes);

float max_row(const float* x, u64 n) { return HWY_DYNAMIC_DISPATCH(max_of_logits)(x, n); }

float sum_exp_row(const float* x, float minus, u64 n) {
  return HWY_DYNAMIC_DISPATCH(sum_exp_lanes)(x, minus, n);
}

float sum_row(const float* x, u64 n) { return HWY_DYNAMIC_DISPATCH(sum_of_logits)(x, n); }

float capped_sum_row(const float* x, float cap, u64 n) {
  return HWY_DYNAMIC_DISPATCH(capped_sum_of_logits)(x, cap, n);
}

void scaled_exp_row(float* x, float minus, float scale, float less, u64 n) {
  HWY_DYNAMIC_DISPATCH(scaled_exp_lanes)(x, minus, scale, less, n);
}

float capped_sum_exp_row(const float* x, float cap, float minus, u64 n) {
  return HWY_DYNAMIC_DISPATCH(capped_sum_exp_lanes)(x, cap, minus, n);
}

void capped_scaled_exp_row(float* x, float cap, float minus, float scale, float less, u64 n) {
  HWY_DYNAMIC_DISPATCH(capped_scaled_exp_lanes)(x, cap, minus, scale, less, n);
}

}  // namespace tidepool
#endif
