// The scalars of a step's updates: unscaling, clipping and skipping are here, for every update rule alike.
#pragma once

#include <array>

#include "kernels/gradient/step_result.h"

namespace tidepool {

inline constexpr u32 update_factors_max = 6;
inline constexpr u32 gradient_factors_max = 2;

// All scalars of one step, computed in double from the step's numbers alone, and rounded once to float: every
// update of a step computes the same ones. Factors of the step are folded in here instead of being applied
// per element, because an update on the host spends about as long computing as reading.
struct UpdateScalars {
  std::array<float, update_factors_max> factors{};  // the rule gives them their meaning
  // Factors of the gradient as backward made it: they unscale and clip it, too.
  std::array<float, gradient_factors_max> of_gradient{};
  float decay = 1, no_decay = 1;  // the rule's factor for tensors with weight decay, and for the others
  float clip = 1;                 // 1: not clipped; for reports: `of_gradient` includes it
  // The gradient is not finite: the state stays unchanged (fp16's param is made anew from the master).
  bool skip = false;
  u64 step = 0;  // number of the update: random bits follow from it

  bool operator==(const UpdateScalars&) const = default;
};

// A rule's scalars before the norm is known. Powers are computed on the host; the part that needs the norm is
// plain IEEE arithmetic wherever the norm is, so host and device make the same bits.
struct UpdateStep {
  UpdateScalars unclipped;                                 // without of_gradient
  std::array<double, gradient_factors_max> of_gradient{};  // of a gradient that is neither scaled nor clipped
  double max_grad_norm = 0;                                // 0: no clipping
};

// Clips as clip_grad_norm_: max_grad_norm / (grad_norm + 1e-6), at most 1.
constexpr UpdateScalars update_scalars(const UpdateStep& step, const StepResult& result) {
  const double clipped = step.max_grad_norm / (result.grad_norm + 1e-6);
  const double clip = step.max_grad_norm > 0 && clipped < 1.0 ? clipped : 1.0;
  UpdateScalars s = step.unclipped;
  const double unscaled = clip / static_cast<double>(result.loss_scale.scale);
  for (u32 i = 0; i < gradient_factors_max; ++i)
    s.of_gradient[i] = static_cast<float>(step.of_gradient[i] * unscaled);
  s.clip = static_cast<float>(clip);
  s.skip = result.skipped;
  return s;
}

}  // namespace tidepool
