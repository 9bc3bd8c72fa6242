#include "kernels/simd/targets.h"
#include "optimizers/adafactor/adafactor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/adafactor/adafactor_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/update/update_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

// The gradient is the step.
struct AdafactorRule {
  static constexpr size_t slots = 0;
  static constexpr bool adds_parameters = false;

  explicit HWY_INLINE AdafactorRule(const UpdateScalars&) {}
  HWY_INLINE void update(rules::V step, rules::V decay, rules::V& p, rules::V (&)[1]) const {
    p = rules::fms(decay, p, step);
  }
};

u32 adafactor_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                   UpdateTileHashes* hashes) {
  return rules::source_tile<rules::Stored<AdafactorRule>>(t, precision, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(adafactor_tile);

u32 adafactor_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                   UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(adafactor_tile)(t, precision, s, hashes);
}

}  // namespace tidepool
#endif
