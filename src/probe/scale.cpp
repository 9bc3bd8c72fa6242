#include "probe/scale.h"

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/probe/scale.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void scale(T* x, size_t n, T c) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, c);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factor), d, x + i);
  for (; i < n; ++i) x[i] = static_cast<T>(x[i] * c);
}
void floats(float* x, size_t n, float c) { scale(x, n, c); }
void halves(uint16_t* x, size_t n, uint16_t c) { scale(x, n, c); }

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(floats);
HWY_EXPORT(halves);

void scale_floats(float* x, u64 n, float c) { HWY_DYNAMIC_DISPATCH(floats)(x, n, c); }
void scale_halves(u16* x, u64 n, u16 c) { HWY_DYNAMIC_DISPATCH(halves)(x, n, c); }

}  // namespace tidepool
#endif
