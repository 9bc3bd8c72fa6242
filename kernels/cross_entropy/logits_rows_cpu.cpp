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

// `load`: from an index to logits, as the loss sees them.
template <class Load>
HWY_INLINE LogitSums sums_of_logits(Load load, float maximum, u64 n) {
  const auto below = [&](auto d, u64 i) HWY_ATTR { return hn::Sub(load(d, i), hn::Set(d, maximum)); };
  return {.logits = sum_lanes(n, load),
          .weighted = sum_lanes(n,
                                [&](auto d, u64 i) HWY_ATTR {
                                  const auto x = below(d, i);
                                  return hn::Mul(exp_lanes(d, x), x);
                                }),
          .squares = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
            const auto e = exp_lanes(d, below(d, i));
            return hn::Mul(e, e);
          })};
}

LogitSums logit_sums_lanes(const float* x, float cap, float maximum, u64 n) {
  if (cap == 0)
    return sums_of_logits([&](auto d, u64 i) HWY_ATTR { return hn::LoadU(d, x + i); }, maximum, n);
  return sums_of_logits(
      [&](auto d, u64 i) HWY_ATTR { return capped_lanes(d, hn::LoadU(d, x + i), cap).value; }, maximum, n);
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
HWY_EXPORT(logit_sums_lanes);
HWY_EXPORT(scaled_exp_lanes);
HWY_EXPORT(capped_sum_exp_lanes);
HWY_EXPORT(capped_scaled_exp_lanes);

float max_row(const float* x, u64 n) { return HWY_DYNAMIC_DISPATCH(max_of_logits)(x, n); }

float sum_exp_row(const float* x, float minus, u64 n) {
  return HWY_DYNAMIC_DISPATCH(sum_exp_lanes)(x, minus, n);
}

LogitSums logit_sums_of_row(const float* x, float cap, float maximum, u64 n) {
  return HWY_DYNAMIC_DISPATCH(logit_sums_lanes)(x, cap, maximum, n);
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
