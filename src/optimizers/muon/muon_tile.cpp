#include "kernels/simd/targets.h"
#include "optimizers/muon/muon.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/muon/muon_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/update/update_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

// `restores`: the direction goes back to the gradient's range.
template <bool restores>
struct MuonDirection {
  static constexpr size_t slots = 1;
  static constexpr bool adds_parameters = false;
  const MuonScalars scalars;
  rules::V momentum, grad_to_momentum, restored;

  explicit HWY_INLINE MuonDirection(const UpdateScalars& all) : scalars(all) {
    const rules::F d;
    momentum = hn::Set(d, scalars.momentum), restored = hn::Set(d, scalars.restored);
    grad_to_momentum = hn::Set(d, scalars.grad_to_momentum);
  }

  HWY_INLINE rules::V added(rules::V grad, rules::V, rules::V) const { return grad; }
  HWY_INLINE void update(rules::V grad, rules::V, rules::V& direction, rules::V (&state)[slots]) const {
    const rules::V of_gradient = hn::Mul(grad_to_momentum, grad);
    rules::V& m = state[0];
    m = rules::fma(momentum, m, of_gradient);
    direction = scalars.nesterov ? rules::fma(momentum, m, of_gradient) : m;
    if constexpr (restores) {
      const rules::V most = hn::Set(rules::F(), direction_most);
      direction = hn::Clamp(hn::Mul(direction, restored), hn::Neg(most), most);
    }
  }
};

struct MuonStep {
  static constexpr size_t slots = 0;
  static constexpr bool adds_parameters = false;
  const MuonScalars scalars;
  rules::V learning_rate;

  explicit HWY_INLINE MuonStep(const UpdateScalars& all) : scalars(all) {
    learning_rate = hn::Set(rules::F(), scalars.learning_rate);
  }

  HWY_INLINE rules::V added(rules::V direction, rules::V, rules::V) const { return direction; }
  HWY_INLINE void update(rules::V direction, rules::V decay, rules::V& p, rules::V (&)[1]) const {
    p = rules::fms(decay, p, hn::Mul(learning_rate, direction));
  }
};

template <SlotFormat format>
u32 direction_of(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  if (precision == Precision::fp16)
    return rules::direction_tile<rules::Stored<MuonDirection<true>, format>>(t, precision, s, hashes);
  return rules::direction_tile<rules::Stored<MuonDirection<false>, format>>(t, precision, s, hashes);
}

u32 muon_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<MuonStep>>(t, precision, s, hashes);
}
u32 muon_direction_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                        UpdateTileHashes* hashes) {
  return direction_of<SlotFormat::f32>(t, precision, s, hashes);
}
u32 muon_bf16_direction_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                             UpdateTileHashes* hashes) {
  return direction_of<SlotFormat::bf16>(t, precision, s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(muon_tile);
HWY_EXPORT(muon_direction_tile);
HWY_EXPORT(muon_bf16_direction_tile);

u32 muon_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(muon_tile)(t, precision, s, hashes);
}
u32 muon_direction_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                        UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(muon_direction_tile)(t, precision, s, hashes);
}
u32 muon_bf16_direction_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                             UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(muon_bf16_direction_tile)(t, precision, s, hashes);
}

}  // namespace tidepool
#endif
