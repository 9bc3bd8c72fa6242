// make_window lays out a table of tensors as a window.
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
  bool fused = false;  // starts where the tensor before it ends: the two are one array
  double init_bound = 0.0;
  u64 alignment = 64;                    // elements; not if fused
  TensorKind kind = TensorKind::matrix;  // vectors are norms or biases, by their names
  // As in Tensor.
  bool in_out = false;
  std::vector<u64> joined = {};
  bool interleaved = false;
  bool constant = false;
};

// Lays the tensors out one after the other, those of one rule together. A tensor that is not fused starts
// aligned; and if it begins a unit of updates, where a unit may begin. Fused tensors take the first rule that
// is for all of them. `trained`: if false, no rule matters.
// REQUIRES: the graph has its rules.
Window make_window(const ModelGraph&, std::string name, std::vector<TensorSpec> specs, bool trained);

}  // namespace tidepool
