// LossScale implements dynamic loss scaling as PyTorch's GradScaler does (Micikevicius et al., "Mixed
// Precision Training", arXiv:1710.03740): the loss's gradient is multiplied by a scale, so that small
// gradients do not vanish in fp16; updates divide the scale out. A step whose gradient is not finite changes
// no weight and lowers the scale. Plain values, updated wherever the norm is: on the host or on a device.
#pragma once

#include "base/types.h"

namespace tidepool {

struct LossScaling {
  float growth_factor = 2;
  float backoff_factor = 0.5;
  float min_scale = 1;
  u32 growth_interval = 0;  // steps in a row without overflow until the scale grows; 0: constant scale
};

// State of loss scaling between two steps.
struct LossScale {
  float scale = 1;
  u32 good_steps = 0;     // steps without overflow since the scale last changed
  u64 skipped_steps = 0;  // steps so far that changed no weight

  bool operator==(const LossScale&) const = default;
};

// With this limit an update's factors, a step's gradient (1e-12, say) divided by the scale, and fp16's range
// all stay well inside the range of floats.
inline constexpr float loss_scale_max = 0x1p64f;

constexpr LossScale after_step(const LossScale& before, const LossScaling& scaling, bool overflow) {
  if (scaling.growth_interval == 0) return before;
  if (overflow) {
    const float lower = before.scale * scaling.backoff_factor;
    return {.scale = lower < scaling.min_scale ? scaling.min_scale : lower,
            .good_steps = 0,
            .skipped_steps = before.skipped_steps + 1};
  }
  LossScale after = before;
  if (++after.good_steps < scaling.growth_interval) return after;
  after.good_steps = 0;
  const float higher = before.scale * scaling.growth_factor;
  if (higher <= loss_scale_max) after.scale = higher;
  return after;
}

}  // namespace tidepool
