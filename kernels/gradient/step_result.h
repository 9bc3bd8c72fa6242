// What a step's losses and norm partials come to. Made by the host, or by a device in its own memory.
#pragma once

#include "tidepool/types.h"

namespace tidepool {

struct StepResult {
  double loss = 0;       // mean over target tokens
  double grad_norm = 0;  // before clipping
  u64 target_tokens = 0;
  bool skipped = false;  // not finite: with clipping the updates left the state as it was
};

// loss_sum: of micro-batches, in their order. grad_norm: the root of the sum of partials, in their order.
constexpr StepResult step_result(double loss_sum, double grad_norm, u64 target_tokens) {
  const auto finite = [](double x) { return x - x == 0; };
  return {.loss = loss_sum / static_cast<double>(target_tokens > 0 ? target_tokens : 1),
          .grad_norm = grad_norm,
          .target_tokens = target_tokens,
          .skipped = !finite(grad_norm) || !finite(loss_sum)};
}

}  // namespace tidepool
