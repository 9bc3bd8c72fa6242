#include "optimizers/lion/lion.h"

namespace tidepool {

UpdateStep lion_step(const OptimizerSettings& settings, u64) {
  return {.unclipped = {.factors = {static_cast<float>(settings.beta1), static_cast<float>(settings.beta2),
                                    static_cast<float>(settings.learning_rate)},
                        .decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay)},
          .of_gradient = {1 - settings.beta1, 1 - settings.beta2}};
}

}  // namespace tidepool
