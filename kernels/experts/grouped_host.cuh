// Choices on the host that grouped products and their gradients share.
#pragma once

#include "kernels/cuda/capability.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/experts/grouped_tensor.cuh"

namespace tidepool::cuda {

inline GroupedUnits grouped_units_here(Precision activations) {
  return grouped_units(activations, current_capability());
}

// Calls fn(mma) for the tensor cores of `units`.
template <class Fn>
void for_grouped_mma(GroupedUnits units, Precision precision, Fn fn) {
  if (units == GroupedUnits::tensor_sm70) return fn(M8n8k4());
  for_half(precision, [&](auto half) { fn(M16n8k16<decltype(half)>()); });
}

// Calls fn(type) for activations that are multiplied without tensor cores.
template <class Fn>
void for_fma_precision(Precision precision, Fn fn) {
  require(precision != Precision::fp16, "all devices have tensor cores for fp16");
  if (precision == Precision::fp32) return fn(float{});
  fn(Bf16{});
}

}  // namespace tidepool::cuda
