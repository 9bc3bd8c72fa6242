// Tells which products the first GPU supports; tests that need more skip themselves.
#pragma once

#include <cuda_runtime.h>

#include "tidepool/chunk.h"

namespace tidepool::test {

// RETURNS: compute capability, 10 times major plus minor.
inline int gpu_capability() {
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) != cudaSuccess)
    return 0;
  return 10 * major + minor;
}

// Before sm_80 bf16 is only a storage format: tensor cores and cuBLASLt do not support it.
inline bool gpu_multiplies(Precision p) { return p != Precision::bf16 || gpu_capability() >= 80; }

}  // namespace tidepool::test
