// What a step's losses and norm partials come to. Made by the host, or by a device in its own memory.
#pragma once

#include "kernels/loss_scale.h"

namespace tidepool {

struct StepResult {
  double loss = 0;       // mean over target tokens
  double grad_norm = 0;  // before clipping; the loss's scale divided out
  u64 target_tokens = 0;
  bool skipped = false;       // not finite: with clipping the updates left the state as it was
  LossScale loss_scale;       // that the step's gradient has; 1 but in fp16
  LossScale next_loss_scale;  // what the next step will have
};

// What a step's sums come to: of losses of micro-batches, in their order, and of norm partials, in theirs.
struct StepSums {
  double loss = 0;
  double grad_norm = 0;  // the root, of the scaled gradient
  u64 target_tokens = 0;
  LossScale loss_scale;
  LossScaling loss_scaling;
};
constexpr StepResult step_result(const StepSums& s) {
  const auto finite = [](double x) { return x - x == 0; };
  const bool skipped = !finite(s.grad_norm) || !finite(s.loss);
  return {.loss = s.loss / static_cast<double>(s.target_tokens > 0 ? s.target_tokens : 1),
          .grad_norm = s.grad_norm / static_cast<double>(s.loss_scale.scale),
          .target_tokens = s.target_tokens,
          .skipped = skipped,
          .loss_scale = s.loss_scale,
          .next_loss_scale = after_step(s.loss_scale, s.loss_scaling, skipped)};
}

}  // namespace tidepool
