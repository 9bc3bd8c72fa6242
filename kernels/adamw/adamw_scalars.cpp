#include <algorithm>
#include <cmath>

#include "kernels/adamw.h"
#include "tidepool/check.h"

namespace tidepool {

AdamWScalars adamw_scalars(const AdamWSettings& settings, u64 t, double grad_norm, double max_grad_norm) {
  CHECK(t >= 1, t);
  const double steps = static_cast<double>(t);
  const double correction1 = 1 - std::pow(settings.beta1, steps);
  const double correction2 = 1 - std::pow(settings.beta2, steps);
  const bool clip = max_grad_norm > 0;
  AdamWScalars s;
  s.learning_rate = static_cast<float>(settings.learning_rate);
  s.beta1 = static_cast<float>(settings.beta1);
  s.beta2 = static_cast<float>(settings.beta2);
  s.one_minus_beta1 = static_cast<float>(1 - settings.beta1);
  s.one_minus_beta2 = static_cast<float>(1 - settings.beta2);
  s.step_size = static_cast<float>(settings.learning_rate / correction1);
  s.inv_sqrt_bias_correction2 = static_cast<float>(1 / std::sqrt(correction2));
  s.epsilon = static_cast<float>(settings.epsilon);
  s.decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay);
  s.grad_scale = clip ? static_cast<float>(std::min(1.0, max_grad_norm / (grad_norm + 1e-6))) : 1.0f;
  s.skip = !std::isfinite(grad_norm);
  return s;
}

}  // namespace tidepool
