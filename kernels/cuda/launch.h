// Launches kernels, and checks the launch. All kernels start through this header.
//
//   template <class T> __global__ void scale_kernel(T* y, float factor, u64 n);
//   cuda::launch<scale_kernel<float>>(elementwise_launch(n, 4), stream, y, factor, n);
//
// Arguments are converted to the kernel's parameters and copied. The launch returns at once. A shape that the
// driver refuses is our bug and stops the process. Any other error (a lost device, a wrong address of an
// earlier kernel) stays with CUDA: the code that started the op asks cudaGetLastError() and can name the op.
//
// Every kernel launched in this way is listed before main() begins, and load_kernels() loads all of them onto
// a device. Otherwise CUDA would load each at its first launch, in the middle of a step, when memory for it
// may be gone.
#pragma once

#include <cuda_runtime.h>

#include <span>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// Stops the process, printing the shape, if the error says that the shape was refused.
void check_launch(cudaError_t, const LaunchShape&);

constexpr dim3 to_dim3(Extent e) { return {e.x, e.y, e.z}; }

// For kernels that only tests launch: they are not listed.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            std::type_identity_t<Parameters>... arguments) {
  if (shape.shared_bytes > shared_bytes_default) {
    // Set per device and kernel; cheap to repeat.
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
// RETURNS: all kernels for which this program contains launch<kernel>(), in no order.
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

// Loads all listed kernels onto the current device.
// Errors: CUDA's: the program was not built for such a device, or the device's memory does not suffice.
Result<void> load_kernels();

}  // namespace tidepool::cuda
