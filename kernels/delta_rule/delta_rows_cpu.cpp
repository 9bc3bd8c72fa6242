// Loops over rows of a chunk for each SIMD target.
#include "kernels/delta_rule/delta_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/delta_rule/delta_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/gates-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

float delta_dot(const float* a, const float* b, u64 n) {
  return sum_lanes(n,
                   [&](auto d, u64 i) HWY_ATTR { return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)); });
}

void delta_add_scaled(float* y, const float* x, float factor, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::Set(d, factor), hn::LoadU(d, y + i)), d, y + i);
  });
}

void delta_scaled(const float* x, float factor, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i)
                   HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, y + i); });
}

void delta_multiply(const float* a, const float* b, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i)
                   HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i); });
}

void delta_multiply_add(float* y, const float* a, const float* b, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, y + i)), d, y + i);
  });
}

void delta_decays(float* sums, float g, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto sum = hn::Add(hn::LoadU(d, sums + i), hn::Set(d, g));
    hn::StoreU(sum, d, sums + i);
    hn::StoreU(exp_lanes(d, sum), d, y + i);
  });
}

void delta_silu(const float* x, float* y, u64 n) {
  for_lanes(n,
            [&](auto d, u64 i) HWY_ATTR { hn::StoreU(SiluLanes::value(d, hn::LoadU(d, x + i)), d, y + i); });
}

void delta_silu_backward(const float* x, const float* dy, float* dx, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto act = SiluLanes::with_slope(d, hn::LoadU(d, x + i));
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), act.slope), d, dx + i);
  });
}

void gated_norm_lanes(const float* x, float rstd, const float* weight, const float* z, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto normal = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, rstd));
    const auto gate = SiluLanes::value(d, hn::LoadU(d, z + i));
    hn::StoreU(hn::Mul(hn::Mul(normal, hn::LoadU(d, weight + i)), gate), d, y + i);
  });
}

// With n = rstd x and s = silu(z): dn = dy weight s; dx = rstd (dn - n mean(dn n)).
void gated_norm_backward_lanes(const delta_rows::GatedNormRow& r, u64 n) {
  const float sum = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto dn = hn::Mul(hn::Mul(hn::LoadU(d, r.dy + i), hn::LoadU(d, r.weight + i)),
                            SiluLanes::value(d, hn::LoadU(d, r.z + i)));
    return hn::Mul(dn, hn::Mul(hn::LoadU(d, r.x + i), hn::Set(d, r.rstd)));
  });
  const float mean = sum / static_cast<float>(n);
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto dy = hn::LoadU(d, r.dy + i), weight = hn::LoadU(d, r.weight + i);
    const auto normal = hn::Mul(hn::LoadU(d, r.x + i), hn::Set(d, r.rstd));
    const auto gate = SiluLanes::with_slope(d, hn::LoadU(d, r.z + i));
    const auto dn = hn::Mul(hn::Mul(dy, weight), gate.value);
    hn::StoreU(hn::MulAdd(hn::Mul(dy, normal), gate.value, hn::LoadU(d, r.dweight + i)), d, r.dweight + i);
    hn::StoreU(hn::Mul(hn::Mul(hn::Mul(dy, weight), normal), gate.slope), d, r.dz + i);
    hn::StoreU(hn::Mul(hn::NegMulAdd(normal, hn::Set(d, mean), dn), hn::Set(d, r.rstd)), d, r.dx + i);
  });
}

void silu_gated_lanes(const float* x, const float* z, float* h, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto gate = SiluLanes::value(d, hn::LoadU(d, z + i));
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), gate), d, h + i);
  });
}

void delta_scaled_by(const float* h, float rstd, const float* weight, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto normal = hn::Mul(hn::LoadU(d, h + i), hn::Set(d, rstd));
    hn::StoreU(hn::Mul(normal, hn::LoadU(d, weight + i)), d, y + i);
  });
}

void group_norm_backward_lanes(const delta_rows::GroupNormRow& r, u64 n) {
  const float sum = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto dn = hn::Mul(hn::LoadU(d, r.dy + i), hn::LoadU(d, r.weight + i));
    return hn::Mul(dn, hn::Mul(hn::LoadU(d, r.h + i), hn::Set(d, r.rstd)));
  });
  const float mean = sum / static_cast<float>(n);
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto dy = hn::LoadU(d, r.dy + i), rstd = hn::Set(d, r.rstd);
    const auto normal = hn::Mul(hn::LoadU(d, r.h + i), rstd);
    const auto gate = SiluLanes::with_slope(d, hn::LoadU(d, r.z + i));
    const auto dn = hn::Mul(dy, hn::LoadU(d, r.weight + i));
    const auto dh = hn::Mul(hn::NegMulAdd(normal, hn::Set(d, mean), dn), rstd);
    hn::StoreU(hn::MulAdd(dy, normal, hn::LoadU(d, r.dweight + i)), d, r.dweight + i);
    hn::StoreU(hn::Mul(hn::Mul(dh, hn::LoadU(d, r.x + i)), gate.slope), d, r.dz + i);
    hn::StoreU(hn::Mul(dh, gate.value), d, r.dx + i);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(delta_dot);
HWY_EXPORT(delta_add_scaled);
HWY_EXPORT(delta_scaled);
HWY_EXPORT(delta_multiply);
HWY_EXPORT(delta_multiply_add);
HWY_EXPORT(delta_decays);
HWY_EXPORT(delta_silu);
HWY_EXPORT(delta_silu_backward);
HWY_EXPORT(gated_norm_lanes);
HWY_EXPORT(gated_norm_backward_lanes);
HWY_EXPORT(silu_gated_lanes);
HWY_EXPORT(delta_scaled_by);
HWY_EXPORT(group_norm_backward_lanes);

namespace delta_rows {

float dot(const float* a, const float* b, u64 n) { return HWY_DYNAMIC_DISPATCH(delta_dot)(a, b, n); }
void add_scaled(float* y, const float* x, float factor, u64 n) {
  HWY_DYNAMIC_DISPATCH(delta_add_scaled)(y, x, factor, n);
}
void scaled(const float* x, float factor, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(delta_scaled)(x, factor, y, n);
}
void multiply(const float* a, const float* b, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(delta_multiply)(a, b, y, n);
}
void multiply_add(float* y, const float* a, const float* b, u64 n) {
  HWY_DYNAMIC_DISPATCH(delta_multiply_add)(y, a, b, n);
}
void decays(float* sums, float g, float* y, u64 n) { HWY_DYNAMIC_DISPATCH(delta_decays)(sums, g, y, n); }
void silu(const float* x, float* y, u64 n) { HWY_DYNAMIC_DISPATCH(delta_silu)(x, y, n); }
void silu_backward(const float* x, const float* dy, float* dx, u64 n) {
  HWY_DYNAMIC_DISPATCH(delta_silu_backward)(x, dy, dx, n);
}
void gated_norm(const float* x, float rstd, const float* weight, const float* z, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(gated_norm_lanes)(x, rstd, weight, z, y, n);
}
void gated_norm_backward(const GatedNormRow& row, u64 n) {
  HWY_DYNAMIC_DISPATCH(gated_norm_backward_lanes)(row, n);
}

void silu_gated(const float* x, const float* z, float* h, u64 n) {
  HWY_DYNAMIC_DISPATCH(silu_gated_lanes)(x, z, h, n);
}
void scaled_by(const float* h, float rstd, const float* weight, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(delta_scaled_by)(h, rstd, weight, y, n);
}
void group_norm_backward(const GroupNormRow& row, u64 n) {
  HWY_DYNAMIC_DISPATCH(group_norm_backward_lanes)(row, n);
}

}  // namespace delta_rows
}  // namespace tidepool
#endif
