#include "kernels/simd/targets.h"
#include "optimizers/lion/lion.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/lion/lion_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/update/update_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

struct LionRule {
  static constexpr size_t slots = 1;
  static constexpr bool adds_parameters = false;
  const LionScalars scalars;
  rules::V beta1, beta2, learning_rate, grad_to_step, grad_to_momentum;

  explicit HWY_INLINE LionRule(const UpdateScalars& all) : scalars(all) {
    const LionScalars& s = scalars;
    const rules::F d;
    beta1 = hn::Set(d, s.beta1), beta2 = hn::Set(d, s.beta2);
    learning_rate = hn::Set(d, s.learning_rate);
    grad_to_step = hn::Set(d, s.grad_to_step), grad_to_momentum = hn::Set(d, s.grad_to_momentum);
  }

  HWY_INLINE rules::V added(rules::V grad, rules::V, rules::V) const { return grad; }
  HWY_INLINE void update(rules::V grad, rules::V decay, rules::V& p, rules::V (&state)[slots]) const {
    rules::V& m = state[0];
    const rules::V zero = hn::Zero(rules::F());
    const rules::V c = rules::fma(beta1, m, hn::Mul(grad_to_step, grad));
    m = rules::fma(beta2, m, hn::Mul(grad_to_momentum, grad));
    const rules::V up = hn::IfThenElseZero(hn::Gt(c, zero), learning_rate);
    const rules::V down = hn::IfThenElseZero(hn::Lt(c, zero), learning_rate);
    p = rules::fms(decay, p, hn::Sub(up, down));
  }
};

u32 lion_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<LionRule, SlotFormat::f32>>(t, precision, s, hashes);
}
u32 lion_bf16_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                   UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<LionRule, SlotFormat::bf16>>(t, precision, s, hashes);
}
u32 lion_8bit_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                   UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<LionRule, SlotFormat::signed8>>(t, precision, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(lion_tile);
HWY_EXPORT(lion_bf16_tile);
HWY_EXPORT(lion_8bit_tile);

u32 lion_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(lion_tile)(t, precision, s, hashes);
}
u32 lion_bf16_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                   UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(lion_bf16_tile)(t, precision, s, hashes);
}
u32 lion_8bit_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                   UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(lion_8bit_tile)(t, precision, s, hashes);
}

}  // namespace tidepool
#endif
