// Turns CUDA errors into words: the operation, the meaning, what to do.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/result.h"

namespace tidepool {

// `doing` names the operation: "allocating 20 GiB on cuda:0", "backward block 3 micro-batch 0 on device 0
// compute (84 MiB)".
Error cuda_error(cudaError_t, const std::string& doing);

// Returns from the caller with the error. `doing` is evaluated only on errors.
#define TRY_CUDA(call, doing)                                               \
  do {                                                                      \
    if (const cudaError_t cuda_result = (call); cuda_result != cudaSuccess) \
      return cuda_error(cuda_result, doing);                                \
  } while (false)

}  // namespace tidepool
