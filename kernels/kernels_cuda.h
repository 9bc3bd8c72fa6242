// kernels.h on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "kernels/kernels.h"
#include "kernels/matmul/matmul_workspace.h"
#include "kernels/matmul/product_choices.h"

namespace tidepool {

inline constexpr Bytes cuda_kernels_workspace = cuda_library_workspace + cuda_matmul_scratch;

struct CudaKernelsRequest {
  cudaStream_t stream = nullptr;  // whose order is theirs; outlives them
  // Device memory for nobody else, at least cuda_kernels_workspace, aligned to 256 bytes.
  std::span<std::byte> workspace;
  // Attention of other shapes, or without it of all, is made by our own kernels.
  std::optional<AttentionToCome> to_come = {};
  // Device memory for nobody else until the kernels are made, to try cuDNN's plans in; overwritten. Where it
  // is too small for that, ours are used.
  std::span<std::byte> trial = {};
  // As Products. Outlives them. Null: algorithms are the library's first advice.
  ProductChoices* choices = nullptr;
};

struct CudaKernelsMade {
  std::unique_ptr<Kernels> kernels;
  // Tunes the products that it is told of, for `kernels`, which outlives it: chooses the algorithm of each by
  // a clock and loads its kernel. Other operations do nothing. Operands are read and results overwritten,
  // with numbers that mean nothing. Null without choices.
  std::unique_ptr<Kernels> tuning;
  // What makes attention, for people: "cuDNN 9.19.0", or why it does not although it would be faster. Empty:
  // our own kernels, by choice.
  std::string attention;
};
// On the current device, all loaded: calls return at once, and finish() waits. The device must be current at
// every call. A kernel that fails leaves its error with CUDA; later calls then do nothing, and whoever
// started the operation asks cudaGetLastError() and can name it; then take_refusal(), for what only cuBLASLt
// or cuDNN know of. Errors: cuBLASLt cannot start, or cuDNN where it is to be used; the device has no room
// for the kernels, or the program none for such a device.
Result<CudaKernelsMade> create_cuda_kernels(const CudaKernelsRequest&);

// What would make attention on devices of this compute capability (90: 9.0): "cuDNN 9.19.0", or "our own
// kernels" where they are used by choice. Error: why they are used although cuDNN would be faster.
Result<std::string> attention_library(int capability);

}  // namespace tidepool
