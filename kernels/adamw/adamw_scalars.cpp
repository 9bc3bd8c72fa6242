#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/adamw/adamw.h"

namespace tidepool {

AdamWStep adamw_step(const AdamWSettings& settings, u64 t, double max_grad_norm) {
  CHECK(t >= 1, t);
  const double steps = static_cast<double>(t);
  const double step_size = settings.learning_rate / (1 - std::pow(settings.beta1, steps));
  const double root_factor = 1 / std::sqrt(1 - std::pow(settings.beta2, steps)) / step_size;
  const bool moves = root_factor < static_cast<double>(std::numeric_limits<float>::max());
  AdamWStep step = {.grad_to_momentum = 1 - settings.beta1,
                    .grad_to_root = std::sqrt(1 - settings.beta2),
                    .max_grad_norm = max_grad_norm};
  AdamWScalars& s = step.unclipped;
  s.beta1 = static_cast<float>(settings.beta1);
  s.beta2 = static_cast<float>(settings.beta2);
  s.root_factor = moves ? static_cast<float>(root_factor) : 0.0f;
  s.root_offset =
      moves ? static_cast<float>(settings.epsilon / step_size) : std::numeric_limits<float>::infinity();
  s.decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay);
  return step;
}

AdamWScalars adamw_scalars(const AdamWSettings& settings, u64 t, double grad_norm, double max_grad_norm) {
  return adamw_scalars(adamw_step(settings, t, max_grad_norm),
                       {.grad_norm = grad_norm, .skipped = !std::isfinite(grad_norm)});
}

}  // namespace tidepool
