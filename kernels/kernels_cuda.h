// kernels.h on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <span>

#include "kernels/kernels.h"
#include "kernels/matmul/matmul_workspace.h"
#include "tidepool/result.h"

namespace tidepool {

inline constexpr Bytes cuda_kernels_workspace = cuda_library_workspace + cuda_matmul_scratch;

// On the current device, in the order of one stream, which outlives them: calls return at once, and finish()
// waits. The device must be current at every call. A kernel that fails leaves its error with CUDA; later
// calls then do nothing, and whoever started the operation asks cudaGetLastError() and can name it; then
// take_refusal(), for what only cuBLASLt knows of. REQUIRES:
// `workspace` is device memory for nobody else, at least cuda_kernels_workspace, aligned to 256 bytes. Error:
// cuBLASLt cannot start.
Result<std::unique_ptr<Kernels>> create_cuda_kernels(cudaStream_t, std::span<std::byte> workspace);

}  // namespace tidepool
