// Sums of the partial gradients of the delta rule's small weights.
#pragma once

#include <cuda_runtime.h>

#include "kernels/delta_rule/delta_rule.h"

namespace tidepool::cuda {

// out[kind][column * stride] = sum over groups of partials [groups, kinds, columns].
struct DeltaSums {
  const float* partials = nullptr;
  u32 groups = 0, kinds = 0, columns = 0;
  float* out[delta_taps_max] = {};  // of each kind
  u32 stride = 1;
  bool accumulate = true;  // false: overwrite
};
void sum_delta_groups(const DeltaSums&, cudaStream_t);

}  // namespace tidepool::cuda
