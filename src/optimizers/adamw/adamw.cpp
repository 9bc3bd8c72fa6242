#include "optimizers/adamw/adamw.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace tidepool {

UpdateStep adamw_step(const OptimizerSettings& settings, u64 t) {
  CHECK(t >= 1, t);
  const double steps = static_cast<double>(t);
  const double step_size = settings.learning_rate / (1 - std::pow(settings.beta1, steps));
  const double root_factor = 1 / std::sqrt(1 - std::pow(settings.beta2, steps)) / step_size;
  const bool moves = root_factor < static_cast<double>(std::numeric_limits<float>::max());
  return {.unclipped = {.factors = {static_cast<float>(settings.beta1), static_cast<float>(settings.beta2),
                                    moves ? static_cast<float>(root_factor) : 0.0f,
                                    moves ? static_cast<float>(settings.epsilon / step_size)
                                          : std::numeric_limits<float>::infinity()},
                        .decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay)},
          .of_gradient = {1 - settings.beta1, std::sqrt(1 - settings.beta2)}};
}

}  // namespace tidepool
