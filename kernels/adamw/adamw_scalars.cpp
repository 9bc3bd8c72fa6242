#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/adamw.h"
#include "tidepool/check.h"

namespace tidepool {

AdamWScalars adamw_scalars(const AdamWSettings& settings, u64 t, double grad_norm, double max_grad_norm) {
  CHECK(t >= 1, t);
  const double steps = static_cast<double>(t);
  const double step_size = settings.learning_rate / (1 - std::pow(settings.beta1, steps));
  const double root_factor = 1 / std::sqrt(1 - std::pow(settings.beta2, steps)) / step_size;
  const double grad_scale = max_grad_norm > 0 ? std::min(1.0, max_grad_norm / (grad_norm + 1e-6)) : 1.0;
  const bool moves = root_factor < static_cast<double>(std::numeric_limits<float>::max());
  AdamWScalars s;
  s.beta1 = static_cast<float>(settings.beta1);
  s.beta2 = static_cast<float>(settings.beta2);
  s.grad_to_momentum = static_cast<float>((1 - settings.beta1) * grad_scale);
  s.grad_to_root = static_cast<float>(std::sqrt(1 - settings.beta2) * grad_scale);
  s.root_factor = moves ? static_cast<float>(root_factor) : 0.0f;
  s.root_offset =
      moves ? static_cast<float>(settings.epsilon / step_size) : std::numeric_limits<float>::infinity();
  s.decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay);
  s.grad_scale = static_cast<float>(grad_scale);
  s.skip = !std::isfinite(grad_norm);
  return s;
}

}  // namespace tidepool
