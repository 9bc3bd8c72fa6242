// Implements kernels.h on a GPU.
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
  cudaStream_t stream = nullptr;  // orders all kernels; outlives them
  // Device memory for exclusive use, at least cuda_kernels_workspace, aligned to 256 bytes.
  std::span<std::byte> workspace;
  // The attention shape for which a library is prepared. Our own kernels compute all other shapes, or all if
  // empty.
  std::optional<AttentionToCome> to_come = {};
  // Device memory for exclusive use until the kernels are made, to try cuDNN's plans in; overwritten. If it
  // is too small for that, our own kernels are used.
  std::span<std::byte> trial = {};
  // As Products; outlives the kernels. Null: algorithms are the library's first choice.
  ProductChoices* choices = nullptr;
};

struct CudaKernelsMade {
  std::unique_ptr<Kernels> kernels;
  // Tunes products for `kernels`, which outlives it: a call times the algorithms of a product, chooses the
  // fastest and loads its kernel. Other operations are no-ops. Reads operands and overwrites results with
  // meaningless numbers. Null without choices.
  std::unique_ptr<Kernels> tuning;
  // Library that computes attention, for people: "cuDNN 9.19.0", or why cuDNN is not used although it would
  // be faster. Empty: our own kernels, by choice.
  std::string attention;
};
// Makes kernels on the current device, all loaded. Calls return at once, and finish() waits. A kernel that
// fails leaves its error with CUDA and later calls are no-ops; the caller that started the operation asks
// cudaGetLastError() and can name the operation, and then asks take_refusal() for errors that only cuBLASLt
// or cuDNN report.
// REQUIRES: the device is current at every call.
// Errors: cuBLASLt cannot start, or cuDNN if it is to be used; the device has no room for the kernels; the
// program has no kernels for such a device.
Result<CudaKernelsMade> create_cuda_kernels(const CudaKernelsRequest&);

// RETURNS: the library for attention on devices of this compute capability (90: 9.0): "cuDNN 9.19.0", or "our
// own kernels" if they are used by choice.
// Errors: why our own kernels are used although cuDNN would be faster.
Result<std::string> attention_library(int capability);

}  // namespace tidepool
