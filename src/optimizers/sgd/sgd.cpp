#include "optimizers/sgd/sgd.h"

namespace tidepool {

UpdateStep sgd_step(const OptimizerSettings& settings, u64) {
  return {.unclipped = {.factors = {static_cast<float>(settings.sgd_momentum),
                                    static_cast<float>(settings.learning_rate)},
                        .decay = static_cast<float>(settings.weight_decay),
                        .no_decay = 0},
          .of_gradient = {1}};
}

}  // namespace tidepool
