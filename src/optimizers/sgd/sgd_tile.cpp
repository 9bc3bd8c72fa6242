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
  rules::V momentum, minus_rate, grad_to_step;

  explicit HWY_INLINE SgdRule(const UpdateScalars& scalars) {
    const SgdScalars s(scalars);
    const rules::F d;
    momentum = hn::Set(d, s.momentum), minus_rate = hn::Set(d, -s.learning_rate);
    grad_to_step = hn::Set(d, s.grad_to_step);
  }

  HWY_INLINE void update(rules::V grad, rules::V decay, rules::V& p, rules::V (&state)[slots]) const {
    rules::V& m = state[0];
    m = rules::fma(momentum, m, rules::fma(decay, p, hn::Mul(grad_to_step, grad)));
    p = rules::fma(minus_rate, m, p);
  }
};

bool sgd_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return rules::rule_tile<SgdRule>(t, precision, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(sgd_tile);

bool sgd_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(sgd_tile)(t, precision, s, hashes);
}

}  // namespace tidepool
#endif
