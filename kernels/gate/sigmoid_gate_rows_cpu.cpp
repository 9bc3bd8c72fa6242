#include "kernels/gate/sigmoid_gate_rows.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gate/sigmoid_gate_rows_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/gates-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

// The gate of a whole head, as the vectors of elements' gates compute it.
HWY_INLINE Gate<float> whole_head_gate(float gate) {
  const hn::CappedTag<float, 1> one;
  const auto s = gate_of_minus(one, hn::Set(one, -gate));
  return {hn::GetLane(s.open), hn::GetLane(s.closed)};
}

void gate_head_lanes(const GateHead& head, float* y, u64 n) {
  if (head.whole_head) {
    const float open = whole_head_gate(*head.gates).open;
    return for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, head.x + i), hn::Set(d, open)), d, y + i);
    });
  }
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto s = gate_of_minus(d, hn::Neg(hn::LoadU(d, head.gates + i)));
    hn::StoreU(hn::Mul(hn::LoadU(d, head.x + i), s.open), d, y + i);
  });
}

void gate_head_backward_lanes(const GateHeadBackward& r, u64 n) {
  if (r.head.whole_head) {
    const Gate<float> s = whole_head_gate(*r.head.gates);
    const float sum = sum_lanes(n, [&](auto d, u64 i) HWY_ATTR {
      const auto dy = hn::LoadU(d, r.dy + i), x = hn::LoadU(d, r.head.x + i);
      hn::StoreU(hn::Mul(dy, hn::Set(d, s.open)), d, r.dx + i);
      return hn::Mul(dy, x);
    });
    *r.dgates = sum * s.open * s.closed;
    return;
  }
  for_lanes(n, [&](auto d, u64 i) HWY_ATTR {
    const auto s = gate_of_minus(d, hn::Neg(hn::LoadU(d, r.head.gates + i)));
    const auto dy = hn::LoadU(d, r.dy + i), x = hn::LoadU(d, r.head.x + i);
    const auto dx = hn::Mul(dy, s.open);
    hn::StoreU(dx, d, r.dx + i);
    hn::StoreU(hn::Mul(hn::Mul(dx, x), s.closed), d, r.dgates + i);
  });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(gate_head_lanes);
HWY_EXPORT(gate_head_backward_lanes);

void sigmoid_gate_head(const GateHead& head, float* y, u64 n) {
  HWY_DYNAMIC_DISPATCH(gate_head_lanes)(head, y, n);
}

void sigmoid_gate_backward_head(const GateHeadBackward& head, u64 n) {
  HWY_DYNAMIC_DISPATCH(gate_head_backward_lanes)(head, n);
}

}  // namespace tidepool
#endif
