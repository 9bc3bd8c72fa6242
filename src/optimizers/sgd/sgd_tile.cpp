#include "kernels/simd/targets.h"
#include "optimizers/sgd/sgd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/sgd/sgd_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/update/update_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

struct SgdRule {
  static constexpr size_t slots = 1;
  static constexpr bool adds_parameters = true;
  const SgdScalars scalars;
  rules::V momentum, minus_rate, grad_to_step;

  explicit HWY_INLINE SgdRule(const UpdateScalars& all) : scalars(all) {
    const SgdScalars& s = scalars;
    const rules::F d;
    momentum = hn::Set(d, s.momentum), minus_rate = hn::Set(d, -s.learning_rate);
    grad_to_step = hn::Set(d, s.grad_to_step);
  }

  HWY_INLINE rules::V added(rules::V grad, rules::V decay, rules::V p) const {
    return rules::fma(decay, p, hn::Mul(grad_to_step, grad));
  }
  HWY_INLINE void update(rules::V grad, rules::V decay, rules::V& p, rules::V (&state)[slots]) const {
    rules::V& m = state[0];
    m = rules::fma(momentum, m, rules::fma(decay, p, hn::Mul(grad_to_step, grad)));
    p = rules::fma(minus_rate, m, p);
  }
};

u32 sgd_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<SgdRule, SlotFormat::f32>>(t, precision, s, hashes);
}
u32 sgd_bf16_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                  UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<SgdRule, SlotFormat::bf16>>(t, precision, s, hashes);
}
u32 sgd_8bit_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                  UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<SgdRule, SlotFormat::signed8>>(t, precision, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(sgd_tile);
HWY_EXPORT(sgd_bf16_tile);
HWY_EXPORT(sgd_8bit_tile);

u32 sgd_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(sgd_tile)(t, precision, s, hashes);
}
u32 sgd_bf16_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                  UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(sgd_bf16_tile)(t, precision, s, hashes);
}
u32 sgd_8bit_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                  UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(sgd_8bit_tile)(t, precision, s, hashes);
}

}  // namespace tidepool
#endif
