// Adafactor: Shazeer and Stern (2018), as transformers' Adafactor has it with scale_parameter and
// relative_step off, which is how its Trainer takes it: a learning rate of its own, no momentum, weight decay
// decoupled.
//
// The step of each element is that of second moments in factors (kernels/second_moment), with epsilon 1e-30
// and a share of t^-0.8 for step t. Per element; rounded as AdamW is:
//   param = fma(decay, param, -step)
#pragma once

#include "kernels/second_moment/second_moment.h"
#include "optimizers/optimizer.h"

namespace tidepool {

inline constexpr float adafactor_epsilon = 1e-30f;
inline constexpr double adafactor_decay_rate = -0.8;

// The scalars by name: `decay` is 1 - lr * weight_decay.
struct AdafactorScalars {
  float keep, share, learning_rate, scale;

  explicit constexpr AdafactorScalars(const UpdateScalars& s)
      : keep(s.factors[0]), share(s.factors[1]), learning_rate(s.factors[2]), scale(s.of_gradient[0]) {}
};

UpdateStep adafactor_step(const OptimizerSettings&, u64 t);
u32 adafactor_tile(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes*);
void adafactor_update(const UpdateChunk&, const StateSlots&, const UpdateScalars&, CorePool&);

inline constexpr std::array<StateSlot, 2> adafactor_slots = {{
    {.name = "variance_rows",
     .file_prefix = "exp_avg_sq_row.",
     .meaning = "means of squared gradients by row",
     .letter = 'R',
     .axis = SlotAxis::rows},
    {.name = "variance_columns",
     .file_prefix = "exp_avg_sq_col.",
     .meaning = "means of squared gradients by column; of vectors, each element's",
     .letter = 'C',
     .axis = SlotAxis::columns,
     .file_prefix_of_vectors = "exp_avg_sq."},
}};
inline constexpr Optimizer adafactor = {.title = "Adafactor",
                                        .slots = adafactor_slots,
                                        .keys = {},
                                        .step = adafactor_step,
                                        .tile = adafactor_tile,
                                        .of_tensors = adafactor_update,
                                        .scratch = moment_scratch_bytes,
                                        .gradient_reads = 3,
                                        .unit = UnitKind::tensor,
                                        .base = Optim::adafactor};

}  // namespace tidepool
