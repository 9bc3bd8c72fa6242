// cudaLaunchKernel as a template, because it must know the kernel's parameters to copy them. Included by
// cuda_runtime.h.
#pragma once

#include <functional>
#include <tuple>
#include <utility>

namespace emulated_cuda {

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t,
                   std::function<void()> thread);

template <class... P, std::size_t... I>
std::tuple<P...> copied_arguments(void** arguments, std::index_sequence<I...>) {
  return {*static_cast<P*>(arguments[I])...};
}

}  // namespace emulated_cuda

// Copies arguments at once, as CUDA does.
template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  auto copied = emulated_cuda::copied_arguments<P...>(arguments, std::index_sequence_for<P...>());
  return emulated_cuda::launch(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream,
                               [kernel, copied] { std::apply(kernel, copied); });
}
