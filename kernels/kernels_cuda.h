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

struct CudaKernelsMade {
  std::unique_ptr<Kernels> kernels;
  // What makes attention, for people: "cuDNN 9.19.0", or why it does not although it would be faster. Empty:
  // our own kernels, by choice.
  std::string attention;
};
// On the current device, in the order of one stream, which outlives them: calls return at once, and finish()
// waits. The device must be current at every call. A kernel that fails leaves its error with CUDA; later
// calls then do nothing, and whoever started the operation asks cudaGetLastError() and can name it; then
// take_refusal(), for what only cuBLASLt or cuDNN know of. REQUIRES:
// `workspace` is device memory for nobody else, at least cuda_kernels_workspace, aligned to 256 bytes. Error:
// cuBLASLt cannot start, or cuDNN where it is to be used.
// `to_come`: attention of other shapes, or without it of all, is made by our own kernels.
// `trial`: device memory for nobody else until this returns, to try cuDNN's plans in; overwritten. Where it
// is too small for that, ours are used.
Result<CudaKernelsMade> create_cuda_kernels(cudaStream_t, std::span<std::byte> workspace,
                                            const std::optional<AttentionToCome>& to_come = {},
                                            std::span<std::byte> trial = {});

// What would make attention on devices of this compute capability (90: 9.0): "cuDNN 9.19.0", or "our own
// kernels" where they are used by choice. Error: why they are used although cuDNN would be faster.
Result<std::string> attention_library(int capability);

}  // namespace tidepool
