// Tensor cores of sm_70: mma.m8n8k4 for fp16. A warp computes four products of 8 x 8 at once, one by each of
// its quad pairs: lanes 4 q ... 4 q + 3 and the same plus 16. Layouts of fragments:
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-fragment-mma-884-f16
//
// By lane, with `eighth` = lane % 4 + 4 * (lane / 16); each u32 holds two neighbours, the first below:
//   a  [8, 4], row-major   row eighth, all four columns
//   b  [4, 8] by columns   column eighth, all four rows
//   b  [4, 8] by rows      row lane % 4, columns 4 * (lane / 16) and the three after it
//   d  [8, 8]              d[i]: row lane % 2 + 4 * (lane / 16) + (i & 2), column (lane & 2) + (i & 5)
#pragma once

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

enum class RightFactorBy { columns, rows };

// d += a b, in each quad pair; d is {d0, d1}. Called by a whole warp. Later GPUs run it too, slowly.
template <RightFactorBy by>
__device__ __forceinline__ void mma_8x8x4(float (&d0)[4], float (&d1)[4], const u32 (&a)[2],
                                          const u32 (&b)[2]) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::mma_8x8x4(d0, d1, a, b, by == RightFactorBy::rows);
#elif defined(__CUDA_ARCH__)
  if constexpr (by == RightFactorBy::rows) {
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, "
        "{%0,%1,%2,%3,%4,%5,%6,%7};\n"
        : "+f"(d0[0]), "+f"(d0[1]), "+f"(d0[2]), "+f"(d0[3]), "+f"(d1[0]), "+f"(d1[1]), "+f"(d1[2]),
          "+f"(d1[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, "
        "{%0,%1,%2,%3,%4,%5,%6,%7};\n"
        : "+f"(d0[0]), "+f"(d0[1]), "+f"(d0[2]), "+f"(d0[3]), "+f"(d1[0]), "+f"(d1[1]), "+f"(d1[2]),
          "+f"(d1[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
  }
#endif
}

// RETURNS: true if this instruction is the best of the GPU compiled for. Kernels that use it are empty
// elsewhere.
constexpr bool has_mma_8x8x4() {
#if defined(CUDA_EMULATED)
  return true;
#elif defined(__CUDA_ARCH__)
  return __CUDA_ARCH__ < 750;
#else
  return false;
#endif
}

// Load words of shared memory.
// REQUIRES: `p` is aligned to the number of bytes read.
__device__ __forceinline__ uint4 load_shared_16(const void* p) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::count_shared_read(p, 16);
#endif
  return *static_cast<const uint4*>(p);
}
__device__ __forceinline__ uint2 load_shared_8(const void* p) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::count_shared_read(p, 8);
#endif
  return *static_cast<const uint2*>(p);
}

}  // namespace tidepool::cuda
