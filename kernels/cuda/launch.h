// The one way to start a kernel, and what CUDA says of it.
//
//   template <class T> __global__ void scale_kernel(T* y, float factor, u64 n);
//   cuda::launch<scale_kernel<float>>(elementwise_launch(n, 4), stream, y, factor, n);
//
// Arguments are converted to the kernel's parameters and copied. The launch returns at once. A shape that
// the driver refuses is our bug and stops the process. Any other error (a device lost, an address that an
// earlier kernel got wrong) is left with CUDA: whoever started the op asks cudaGetLastError() and can name
// it.
//
// Every kernel that a program can start in this way is listed before main() begins, and load_kernels() brings
// them all onto a device: CUDA would load each at its first launch, in the middle of a step, into memory
// that may be gone by then.
#pragma once

#include <cuda_runtime.h>

#include <span>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// Stops the process with the shape if the error says that it was refused.
void check_launch(cudaError_t, const LaunchShape&);

constexpr dim3 to_dim3(Extent e) { return {e.x, e.y, e.z}; }

// A kernel that only tests start: it is not listed.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            std::type_identity_t<Parameters>... arguments) {
  if (shape.shared_bytes > shared_bytes_default) {
    // Per device and kernel, and cheap to say again.
    check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shape.shared_bytes)),
                 shape);
  }
  void* pointers[] = {static_cast<void*>(&arguments)..., nullptr};
  check_launch(cudaLaunchKernel(kernel, to_dim3(shape.grid), to_dim3(shape.block), pointers,
                                shape.shared_bytes, stream),
               shape);
}

// Adds to listed_kernels(). RETURNS: true, so that a variable's initial value can call it.
bool list_kernel(const void*);
// All that launch<kernel>() was written for in this program, in no order.
std::span<const void* const> listed_kernels();

template <auto kernel>
struct Listed {
  static inline const bool listed = list_kernel(reinterpret_cast<const void*>(kernel));
};

template <auto kernel, class... Arguments>
void launch(const LaunchShape& shape, cudaStream_t stream, Arguments&&... arguments) {
  static_cast<void>(Listed<kernel>::listed);
  launch(kernel, shape, stream, std::forward<Arguments>(arguments)...);
}

// Loads all listed kernels onto the current device. Error: what CUDA says: this program was not built for
// such a device, or its memory does not suffice.
Result<void> load_kernels();

}  // namespace tidepool::cuda
