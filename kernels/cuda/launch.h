// The one way to start a kernel, and what CUDA says of it.
//
//   template <class T> __global__ void scale_kernel(T* y, float factor, u64 n);
//   cuda::launch(scale_kernel<float>, elementwise_launch(n, 4), stream, y, factor, n);
//
// Arguments are converted to the kernel's parameters and copied. The launch returns at once. A shape that
// the driver refuses is our bug and stops the process. Any other error (a device lost, an address that an
// earlier kernel got wrong) is left with CUDA: whoever started the op asks cudaGetLastError() and can name
// it.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// Stops the process with the shape if the error says that it was refused.
void check_launch(cudaError_t, const LaunchShape&);

constexpr dim3 to_dim3(Extent e) { return {e.x, e.y, e.z}; }

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

}  // namespace tidepool::cuda
