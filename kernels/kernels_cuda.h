// kernels.h on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <optional>
#include <span>

#include "kernels/kernels.h"
#include "kernels/matmul/matmul_workspace.h"
#include "tidepool/result.h"

namespace tidepool {

inline constexpr Bytes cuda_kernels_workspace = cuda_library_workspace + cuda_matmul_scratch;

// What will be asked for, so that what a library compiles for it is there before the first step.
struct AttentionToCome {
  AttentionShape shape;
  Precision precision = Precision::fp32;
  Bytes scratch{};  // of backward
};

// On the current device, in the order of one stream, which outlives them: calls return at once, and finish()
// waits. The device must be current at every call. A kernel that fails leaves its error with CUDA; later
// calls then do nothing, and whoever started the operation asks cudaGetLastError() and can name it; then
// take_refusal(), for what only cuBLASLt knows of. REQUIRES:
// `workspace` is device memory for nobody else, at least cuda_kernels_workspace, aligned to 256 bytes. Error:
// cuBLASLt cannot start, or cuDNN where it is to be used.
Result<std::unique_ptr<Kernels>> create_cuda_kernels(cudaStream_t, std::span<std::byte> workspace,
                                                     const std::optional<AttentionToCome>& = {});

// What makes attention on devices of this compute capability (90: 9.0), as far as shapes allow:
// "cuDNN 9.19.0", or "our own kernels" where they are used by choice. Error: why they are used although cuDNN
// would be faster.
Result<std::string> attention_library(int capability);

}  // namespace tidepool
