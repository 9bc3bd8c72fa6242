#include "run/step_faults.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/units.h"

namespace tidepool {

namespace {

// Advice for faults in initial weights: no update has run, so the learning rate is not the cause.
std::string faults_of_first_weights(const BadStep& bad) {
  if (bad.model_directory.empty()) return "lower model.initializer_range";
  return fmt::format("look for values that are NaN, infinite or very large in the weights of {}",
                     bad.model_directory);
}

std::string what_to_change(const BadStep& bad) {
  if (bad.weights_are_the_first) return "no weight had been changed yet: " + faults_of_first_weights(bad);
  return "lower train.learning_rate or raise train.warmup_steps";
}

std::string what_to_change_in_fp16(const BadStep& bad) {
  if (std::isfinite(bad.result.loss))
    return "the gradient is too large for fp16 at this scale: lower train.learning_rate, raise "
           "train.warmup_steps, "
           "lower train.min_loss_scale, or set train.precision=bf16";
  return fmt::format("the loss itself is not finite, which no scale can fix: {}, or set train.precision=bf16",
                     what_to_change(bad));
}

}  // namespace

Error non_finite_step(const BadStep& bad) {
  return {ErrorKind::non_finite, fmt::format("step {}: loss {} and gradient norm {}{}; {}, and {}", bad.step,
                                             loss_text(bad.result.loss), norm_text(bad.result.grad_norm),
                                             bad.update_was_kept_back ? " (the update was not applied)" : "",
                                             what_to_change(bad), bad.way_on)};
}

Error no_lower_scale(const BadStep& bad) {
  return {ErrorKind::non_finite,
          fmt::format("step {}: loss {} and gradient norm {} at loss scale {:g}, the minimum "
                      "(train.min_loss_scale); the update was not applied; {}; {}",
                      bad.step, loss_text(bad.result.loss), norm_text(bad.result.grad_norm),
                      bad.result.loss_scale.scale, what_to_change_in_fp16(bad), bad.way_on)};
}

std::string overflow_text(u64 step, const StepResult& result) {
  return fmt::format(
      "step {}: {} overflowed at loss scale {:g}: no weight changed, and the scale is now {:g}", step,
      std::isfinite(result.loss) ? "the gradient" : "the loss", result.loss_scale.scale,
      result.next_loss_scale.scale);
}

}  // namespace tidepool
