#include "trainer/step_faults.h"

#include <fmt/format.h>

#include <cmath>

#include "report/units.h"

namespace tidepool {

Error non_finite_step(u64 step, const StepResult& result, bool update_was_kept_back,
                      std::string_view way_on) {
  return {ErrorKind::non_finite,
          fmt::format("step {}: loss {} and gradient norm {}{}; lower train.learning_rate or raise "
                      "train.warmup_steps, and {}",
                      step, loss_text(result.loss), norm_text(result.grad_norm),
                      update_was_kept_back ? " (the update was not applied)" : "", way_on)};
}

Error no_lower_scale(u64 step, const StepResult& result, std::string_view way_on) {
  const char* why =
      std::isfinite(result.loss)
          ? "the gradient is too large for fp16 even so: lower train.learning_rate, raise "
            "train.warmup_steps, lower train.min_loss_scale, or set train.precision=bf16"
          : "the loss itself is not finite, which no scale helps: lower train.learning_rate, raise "
            "train.warmup_steps, or set train.precision=bf16";
  return {ErrorKind::non_finite,
          fmt::format("step {}: loss {} and gradient norm {} at loss scale {:g}, the least "
                      "(train.min_loss_scale); the update was not applied; {}; {}",
                      step, loss_text(result.loss), norm_text(result.grad_norm), result.loss_scale.scale, why,
                      way_on)};
}

std::string overflow_text(u64 step, const StepResult& result) {
  return fmt::format(
      "step {}: {} overflowed at loss scale {:g}: no weight changed, and the scale is {:g} now", step,
      std::isfinite(result.loss) ? "the gradient" : "the loss", result.loss_scale.scale,
      result.next_loss_scale.scale);
}

}  // namespace tidepool
