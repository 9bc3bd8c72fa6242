// What the first GPU can multiply: tests that need more of it skip themselves.
#pragma once

#include <cuda_runtime.h>

#include "tidepool/chunk.h"

namespace tidepool::test {

// 10 times major plus minor.
inline int gpu_capability() {
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) != cudaSuccess)
    return 0;
  return 10 * major + minor;
}

// Before sm_80 bf16 is only a way to store numbers: tensor cores and cuBLASLt do not take it.
inline bool gpu_multiplies(Precision p) { return p != Precision::bf16 || gpu_capability() >= 80; }

}  // namespace tidepool::test
