// AdamW: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (arXiv:1711.05101), as in PyTorch.
//
// Per element; each operation is rounded as written, and fma once, on every target alike (a GPU that follows
// this list makes the same bits):
//   m = fma(beta1, m, grad_to_momentum * grad)
//   r = grad_to_root * grad
//   v = fma(r, r, beta2 * v)
//   param = fms(decay, param, m / fma(sqrt(v), root_factor, root_offset))
#pragma once

#include "optimizers/optimizer.h"

namespace tidepool {

// The scalars by name. grad_to_momentum is 1 - beta1, and grad_to_root is sqrt(1 - beta2): the square of the
// second product is added to the variance. The step is m / (sqrt(v) * root_factor + root_offset). With
// step_size = lr / (1 - beta1^t) the two are 1 / sqrt(1 - beta2^t) / step_size and epsilon / step_size. For
// lr = 0 they are 0 and infinity, and the step is exactly 0. `decay` is 1 - lr * weight_decay.
struct AdamWScalars {
  float beta1, beta2, root_factor, root_offset, grad_to_momentum, grad_to_root;

  explicit constexpr AdamWScalars(const UpdateScalars& s)
      : beta1(s.factors[0]),
        beta2(s.factors[1]),
        root_factor(s.factors[2]),
        root_offset(s.factors[3]),
        grad_to_momentum(s.of_gradient[0]),
        grad_to_root(s.of_gradient[1]) {}

  // A bound of the block's moments after an update. `before`: of the largest old one, `added`: of the
  // gradient.
  constexpr float bound(u32 slot, float before, float added) const {
    if (slot == 0) return with_rounding(beta1 * before + grad_to_momentum * added);
    const float root = grad_to_root * added;
    return with_rounding(beta2 * before + root * root);
  }
};

UpdateStep adamw_step(const OptimizerSettings&, u64 t);
u32 adamw_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 adamw_bf16_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
u32 adamw_8bit_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);

inline constexpr std::array<StateSlot, 2> adamw_slots = {{
    {.name = "momentum", .file_prefix = "exp_avg.", .meaning = "AdamW's first moment", .letter = 'M'},
    {.name = "variance", .file_prefix = "exp_avg_sq.", .meaning = "AdamW's second moment", .letter = 'V'},
}};
inline constexpr std::array<std::string_view, 3> adamw_keys = {"adam_beta1", "adam_beta2", "adam_epsilon"};
inline constexpr Optimizer adamw = {
    .title = "AdamW", .slots = adamw_slots, .keys = adamw_keys, .step = adamw_step, .tile = adamw_tile};

inline constexpr std::array<StateSlot, 2> adamw_bf16_slots = {bf16_slot(adamw_slots[0]),
                                                              bf16_slot(adamw_slots[1])};
inline constexpr Optimizer adamw_bf16 = {.title = "AdamW with bf16 moments",
                                         .slots = adamw_bf16_slots,
                                         .keys = adamw_keys,
                                         .step = adamw_step,
                                         .tile = adamw_bf16_tile};

inline constexpr std::array<StateSlot, 2> adamw_8bit_slots = {
    coded_slot(adamw_slots[0], SlotFormat::signed8), coded_slot(adamw_slots[1], SlotFormat::unsigned8)};
inline constexpr Optimizer adamw_8bit = {.title = "AdamW with 8-bit moments",
                                         .slots = adamw_8bit_slots,
                                         .keys = adamw_keys,
                                         .step = adamw_step,
                                         .tile = adamw_8bit_tile,
                                         .takes = takes_codes};

}  // namespace tidepool
