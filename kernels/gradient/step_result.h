// StepResult is the outcome of a step's losses and norm partials. The host makes it, or a device in its own
// memory.
#pragma once

#include "kernels/loss_scale.h"
#include "tidepool/objective.h"

namespace tidepool {

struct StepResult {
  double loss = 0;        // mean over targets
  double grad_norm = 0;   // before clipping, with the loss scale divided out
  u64 target_tokens = 0;  // targets that count: tokens, or units of the objective
  Sums sums;
  bool skipped = false;       // not finite: with clipping, the updates left the state unchanged
  LossScale loss_scale;       // scale of this step's gradient; 1 except in fp16
  LossScale next_loss_scale;  // scale of the next step
};

// Sums of a step: those of micro-batches in their order, and norm partials in theirs.
struct StepSums {
  Sums sums;
  double grad_norm = 0;  // square root of the sum, still scaled
  u64 target_tokens = 0;
  LossScale loss_scale;
  LossScaling loss_scaling;
};
constexpr StepResult step_result(const StepSums& s) {
  const auto finite = [](double x) { return x - x == 0; };
  const bool skipped = !finite(s.grad_norm) || !finite(s.sums[Sum::loss]);
  return {.loss = s.sums[Sum::loss] / static_cast<double>(s.target_tokens > 0 ? s.target_tokens : 1),
          .grad_norm = s.grad_norm / static_cast<double>(s.loss_scale.scale),
          .target_tokens = s.target_tokens,
          .sums = s.sums,
          .skipped = skipped,
          .loss_scale = s.loss_scale,
          .next_loss_scale = after_step(s.loss_scale, s.loss_scaling, skipped)};
}

}  // namespace tidepool
