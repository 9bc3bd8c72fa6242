// Copies 16 or 4 bytes from global to shared memory while the thread continues. On GPUs below sm_80 copies
// complete at once. Groups: copies, async_copy_commit(), ...; async_copy_wait<n>() returns when all but the
// last n committed groups are done, for this thread; a barrier then makes them visible to the block.
#pragma once

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

// If `take` is false, writes zeros and reads nothing (rows past the end).
// REQUIRES: both pointers are aligned to 16 bytes.
__device__ __forceinline__ void async_copy_16(void* shared, const void* global, bool take = true) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::async_copy(shared, global, take ? 16 : 0, take ? 0 : 16);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(shared));
  const u32 bytes = take ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(global), "r"(bytes)
               : "memory");
#else
  *static_cast<uint4*>(shared) = take ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);
#endif
}

// As async_copy_16, for 4 bytes, aligned to 4.
__device__ __forceinline__ void async_copy_4(void* shared, const void* global, bool take = true) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::async_copy(shared, global, take ? 4 : 0, take ? 0 : 4);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(shared));
  const u32 bytes = take ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(address), "l"(global), "r"(bytes)
               : "memory");
#else
  *static_cast<u32*>(shared) = take ? *static_cast<const u32*>(global) : 0;
#endif
}

__device__ __forceinline__ void async_copy_commit() {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::async_copy_commit();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

template <int groups_left>
__device__ __forceinline__ void async_copy_wait() {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::async_copy_wait(groups_left);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(groups_left) : "memory");
#endif
}

}  // namespace tidepool::cuda
