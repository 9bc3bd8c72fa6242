// The sum: fp32 reads 16 and writes 12 bytes per parameter; at 50 GB/s per core (a fast server's) that takes
// 0.56 ns. The arithmetic alone takes 0.28 ns, nearly all of it in the unit for square roots and divisions.
// XXH3 of the 12 bytes takes 0.2 ns more if it reads them back from the cache, and memory idles meanwhile.
// Computed from registers, between roots and divisions, it takes 0.06 ns.
//
// Rejected as slower: prefetch instructions (each distance and kind, 5 to 25 %), non-temporal stores (half
// the speed: the lines are in the cache, because they were read), tiles of one kind at a time.
#include "kernels/simd/targets.h"
#include "optimizers/adamw/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizers/adamw/adamw_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/update/update_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidepool::HWY_NAMESPACE {

struct AdamWRule {
  static constexpr size_t slots = 2;
  static constexpr bool adds_parameters = false;
  const AdamWScalars scalars;
  rules::V beta1, beta2, root_factor, root_offset, grad_to_momentum, grad_to_root;

  explicit HWY_INLINE AdamWRule(const UpdateScalars& all) : scalars(all) {
    const AdamWScalars& s = scalars;
    const rules::F d;
    beta1 = hn::Set(d, s.beta1), beta2 = hn::Set(d, s.beta2);
    root_factor = hn::Set(d, s.root_factor), root_offset = hn::Set(d, s.root_offset);
    grad_to_momentum = hn::Set(d, s.grad_to_momentum), grad_to_root = hn::Set(d, s.grad_to_root);
  }

  HWY_INLINE rules::V added(rules::V grad, rules::V, rules::V) const { return grad; }
  HWY_INLINE void update(rules::V grad, rules::V decay, rules::V& p, rules::V (&state)[slots]) const {
    rules::V &m = state[0], &v = state[1];
    const rules::V root = hn::Mul(grad_to_root, grad);
    m = rules::fma(beta1, m, hn::Mul(grad_to_momentum, grad));
    v = rules::fma(root, root, hn::Mul(beta2, v));
    p = rules::fms(decay, p, hn::Div(m, rules::fma(hn::Sqrt(v), root_factor, root_offset)));
  }
};

u32 adamw_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<AdamWRule, SlotFormat::f32, SlotFormat::f32>>(t, precision, s,
                                                                                      hashes);
}
u32 adamw_bf16_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                    UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<AdamWRule, SlotFormat::bf16, SlotFormat::bf16>>(t, precision, s,
                                                                                        hashes);
}
u32 adamw_8bit_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                    UpdateTileHashes* hashes) {
  return rules::rule_tile<rules::Stored<AdamWRule, SlotFormat::signed8, SlotFormat::unsigned8>>(t, precision,
                                                                                                s, hashes);
}

}  // namespace tidepool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tidepool {

HWY_EXPORT(adamw_tile);
HWY_EXPORT(adamw_bf16_tile);
HWY_EXPORT(adamw_8bit_tile);

u32 adamw_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s, UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(adamw_tile)(t, precision, s, hashes);
}
u32 adamw_bf16_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                    UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(adamw_bf16_tile)(t, precision, s, hashes);
}
u32 adamw_8bit_tile(const UpdateTile& t, Precision precision, const UpdateScalars& s,
                    UpdateTileHashes* hashes) {
  return HWY_DYNAMIC_DISPATCH(adamw_8bit_tile)(t, precision, s, hashes);
}

}  // namespace tidepool
#endif
