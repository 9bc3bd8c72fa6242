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
};

UpdateStep lion_step(const OptimizerSettings&, u64 t);
bool lion_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);

inline constexpr std::array<StateSlot, 1> lion_slots = {{
    {.name = "momentum", .file_prefix = "exp_avg.", .meaning = "Lion's momentum", .letter = 'M'},
}};
inline constexpr std::array<std::string_view, 2> lion_keys = {"adam_beta1", "adam_beta2"};
inline constexpr Optimizer lion = {
    .title = "Lion", .slots = lion_slots, .keys = lion_keys, .step = lion_step, .tile = lion_tile};

}  // namespace tidepool
