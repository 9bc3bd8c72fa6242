#include "kernels/glu/glu_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/glu/glu_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/gates-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

template <class Act>
void glu_lanes(const float* gate, const float* up, float* y, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto act = Act::value(d, hn::LoadU(d, gate + i));
    hn::StoreU(hn::Mul(act, hn::LoadU(d, up + i)), d, y + i);
  });
}

template <class Act>
void glu_backward_lanes(const GluRowBackward& r, u64 n) {
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto u = hn::LoadU(d, r.up + i), dy = hn::LoadU(d, r.dy + i);
    const auto act = Act::with_slope(d, hn::LoadU(d, r.gate + i));
    hn::StoreU(hn::Mul(hn::Mul(dy, u), act.slope), d, r.dgate + i);
    hn::StoreU(hn::Mul(dy, act.value), d, r.dup + i);
    if (r.value != nullptr) hn::StoreU(hn::Mul(act.value, u), d, r.value + i);
  });
}

void lanes_of_glu(GluGate kind, const float* gate, const float* up, float* y, u64 n) {
  if (kind == GluGate::silu) return glu_lanes<SiluLanes>(gate, up, y, n);
  glu_lanes<GeluLanes>(gate, up, y, n);
}

void lanes_of_glu_backward(GluGate kind, const GluRowBackward& r, u64 n) {
  if (kind == GluGate::silu) return glu_backward_lanes<SiluLanes>(r, n);
  glu_backward_lanes<GeluLanes>(r, n);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(lanes_of_glu);
HWY_EXPORT(lanes_of_glu_backward);

void glu_row(GluGate kind, const float* gate, const float* up, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(lanes_of_glu)(kind, gate, up, y, n);
}

void glu_backward_row(GluGate kind, const GluRowBackward& row, u64 n) {
  HWY_DYNAMIC_DISPATCH(lanes_of_glu_backward)(kind, row, n);
}

}  // namespace tidepool
#endif
