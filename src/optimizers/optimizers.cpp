#include <array>

#include "optimizers/adamw/adamw.h"
#include "optimizers/lion/lion.h"
#include "optimizers/sgd/sgd.h"

namespace tidepool {

const Optimizer& optimizer(Optim optim) {
  static constexpr std::array<Optimizer, optim_count> rows = {adamw, lion, sgd};
  return rows[static_cast<u32>(optim)];
}

}  // namespace tidepool
