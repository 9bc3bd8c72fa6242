#include "kernels/soft_cap/soft_cap.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/soft_cap/soft_cap_cpu.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

void soft_cap_lanes(float* x, float cap, u64 n) {
  for_lanes(n, [&](auto d, u64 i)
                   HWY_ATTR { hn::StoreU(capped_lanes(d, hn::LoadU(d, x + i), cap).value, d, x + i); });
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(soft_cap_lanes);

void soft_cap_row(float* x, float cap, u64 n) { HWY_DYNAMIC_DISPATCH(soft_cap_lanes)(x, cap, n); }

// One row of logits is too little work for several threads.
void soft_cap_cpu(const SoftCap& op) { soft_cap_row(op.x, op.cap, op.elements); }

}  // namespace tidepool
#endif
