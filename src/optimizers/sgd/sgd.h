// SGD with momentum, as torch.optim.SGD has it: without dampening or Nesterov's step, and with weight decay
// in the gradient.
//
// Per element; rounded as AdamW is:
//   d = fma(decay, param, grad_to_step * grad)
//   m = fma(momentum, m, d)
//   param = fma(-lr, m, param)
#pragma once

#include "optimizers/optimizer.h"

namespace tidepool {

// The scalars by name: grad_to_step is 1, `decay` is weight_decay, and 0 for tensors without decay.
struct SgdScalars {
  float momentum, learning_rate, grad_to_step;

  explicit constexpr SgdScalars(const UpdateScalars& s)
      : momentum(s.factors[0]), learning_rate(s.factors[1]), grad_to_step(s.of_gradient[0]) {}

  // A bound of the momentum after an update. `before`: of the largest old one, `added`: of the gradient with
  // decay.
  constexpr float bound(u32, float before, float added) const {
    return with_rounding(momentum * before + added);
  }
};

UpdateStep sgd_step(const OptimizerSettings&, u64 t);
u32 sgd_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 sgd_bf16_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 sgd_8bit_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);

inline constexpr std::array<StateSlot, 1> sgd_slots = {{
    {.name = "momentum", .file_prefix = "momentum_buffer.", .meaning = "SGD's momentum", .letter = 'M'},
}};
inline constexpr std::array<std::string_view, 1> sgd_keys = {"sgd_momentum"};
inline constexpr Optimizer sgd = {.title = "SGD",
                                  .slots = sgd_slots,
                                  .keys = sgd_keys,
                                  .step = sgd_step,
                                  .tile = sgd_tile,
                                  .base = Optim::sgd};

inline constexpr std::array<StateSlot, 1> sgd_bf16_slots = {bf16_slot(sgd_slots[0])};
inline constexpr Optimizer sgd_bf16 = {.title = "SGD with a bf16 momentum",
                                       .slots = sgd_bf16_slots,
                                       .keys = sgd_keys,
                                       .step = sgd_step,
                                       .tile = sgd_bf16_tile,
                                       .base = Optim::sgd};

inline constexpr std::array<StateSlot, 1> sgd_8bit_slots = {coded_slot(sgd_slots[0], SlotFormat::signed8)};
inline constexpr Optimizer sgd_8bit = {.title = "SGD with an 8-bit momentum",
                                       .slots = sgd_8bit_slots,
                                       .keys = sgd_keys,
                                       .step = sgd_step,
                                       .tile = sgd_8bit_tile,
                                       .takes = takes_codes,
                                       .others = Optim::sgd,
                                       .base = Optim::sgd};

}  // namespace tidepool
