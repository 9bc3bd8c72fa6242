// A tensor of parameters that kernels read one element at a time.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/values.h"

namespace tidepool::cuda {

// Its precision is no template argument: kernels that read a few parameters are not built for each.
struct DeviceParam {
  const void* data;  // null: none
  Precision precision;

  __device__ __forceinline__ float at(u32 i) const {
    switch (precision) {
      case Precision::bf16:
        return widened(static_cast<const Bf16*>(data)[i]);
      case Precision::fp16:
        return widened(static_cast<const Fp16*>(data)[i]);
      default:
        return static_cast<const float*>(data)[i];
    }
  }
};

}  // namespace tidepool::cuda
