// Windows out of tables of tensors.
#pragma once

#include <string>
#include <vector>

#include "tidepool/model_graph.h"

namespace tidepool {

struct TensorSpec {
  std::string name;
  std::vector<u64> shape;
  Init init = Init::zeros;
  double init_std = 0.0;
  bool joined = false;  // to the tensor before, as one array
  double init_bound = 0.0;
};

// Tensors one after the other, aligned where they are not joined.
Window make_window(std::string name, std::vector<TensorSpec> specs);

}  // namespace tidepool
