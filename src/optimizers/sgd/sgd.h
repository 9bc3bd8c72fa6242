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
};

UpdateStep sgd_step(const OptimizerSettings&, u64 t);
bool sgd_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);

inline constexpr std::array<StateSlot, 1> sgd_slots = {{
    {.name = "momentum", .file_prefix = "momentum_buffer.", .meaning = "SGD's momentum", .letter = 'M'},
}};
inline constexpr std::array<std::string_view, 1> sgd_keys = {"sgd_momentum"};
inline constexpr Optimizer sgd = {
    .title = "SGD", .slots = sgd_slots, .keys = sgd_keys, .step = sgd_step, .tile = sgd_tile};

}  // namespace tidepool
