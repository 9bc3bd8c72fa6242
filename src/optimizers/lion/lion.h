// Lion: Chen et al., "Symbolic Discovery of Optimization Algorithms" (arXiv:2302.06675), algorithm 2.
//
// Per element; rounded as AdamW is:
//   c = fma(beta1, m, grad_to_step * grad)
//   m = fma(beta2, m, grad_to_momentum * grad)
//   param = fms(decay, param, lr * sign(c))     (the sign of 0 is 0)
#pragma once

#include "optimizers/optimizer.h"

namespace tidepool {

// The scalars by name: grad_to_step is 1 - beta1, grad_to_momentum is 1 - beta2, `decay` is
// 1 - lr * weight_decay.
struct LionScalars {
  float beta1, beta2, learning_rate, grad_to_step, grad_to_momentum;

  explicit constexpr LionScalars(const UpdateScalars& s)
      : beta1(s.factors[0]),
        beta2(s.factors[1]),
        learning_rate(s.factors[2]),
        grad_to_step(s.of_gradient[0]),
        grad_to_momentum(s.of_gradient[1]) {}

  // A bound of the momentum after an update. `before`: of the largest old one, `added`: of the gradient.
  constexpr float bound(u32, float before, float added) const {
    return with_rounding(beta2 * before + grad_to_momentum * added);
  }
};

UpdateStep lion_step(const OptimizerSettings&, u64 t);
u32 lion_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 lion_bf16_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 lion_8bit_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);

inline constexpr std::array<StateSlot, 1> lion_slots = {{
    {.name = "momentum", .file_prefix = "exp_avg.", .meaning = "Lion's momentum", .letter = 'M'},
}};
inline constexpr std::array<std::string_view, 2> lion_keys = {"adam_beta1", "adam_beta2"};
inline constexpr Optimizer lion = {.title = "Lion",
                                   .slots = lion_slots,
                                   .keys = lion_keys,
                                   .step = lion_step,
                                   .tile = lion_tile,
                                   .base = Optim::lion};

inline constexpr std::array<StateSlot, 1> lion_bf16_slots = {bf16_slot(lion_slots[0])};
inline constexpr Optimizer lion_bf16 = {.title = "Lion with a bf16 momentum",
                                        .slots = lion_bf16_slots,
                                        .keys = lion_keys,
                                        .step = lion_step,
                                        .tile = lion_bf16_tile,
                                        .base = Optim::lion};

inline constexpr std::array<StateSlot, 1> lion_8bit_slots = {coded_slot(lion_slots[0], SlotFormat::signed8)};
inline constexpr Optimizer lion_8bit = {.title = "Lion with an 8-bit momentum",
                                        .slots = lion_8bit_slots,
                                        .keys = lion_keys,
                                        .step = lion_step,
                                        .tile = lion_8bit_tile,
                                        .takes = takes_codes,
                                        .others = Optim::lion,
                                        .base = Optim::lion};

}  // namespace tidepool
