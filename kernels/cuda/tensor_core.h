// Tensor cores by warp: fragments of mma.m16n8k16 for bf16 and fp16, and loading them from shared memory.
// sm_80 and later have this instruction, sm_75 has it for fp16 in two halves; on older GPUs mma_plain makes
// the same fragments with shuffles and fused multiply-adds.
//
// Fragments, by lane (row = lane / 4, pair = 2 * (lane % 4)); each u32 holds two neighbours, the first below:
//   a  [16, 16], row-major   a[0]: row, cols pair..   a[1]: row + 8   a[2]: row, cols pair + 8..   a[3]: both
//   b  [16, 8] by columns    b[0]: rows pair.., col = lane / 4        b[1]: rows pair + 8..
//   d  [16, 8]               d[0], d[1]: row, cols pair, pair + 1     d[2], d[3]: row + 8
#pragma once

#include "kernels/cuda/device.h"

namespace tidepool::cuda {

// d += a b. Reference for every GPU, and fallback for GPUs without the instruction.
template <class Half>
__device__ __forceinline__ void mma_plain(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  const u32 row = lane_index() / 4, column = 2 * (lane_index() % 4);
  for (u32 half = 0; half < 2; ++half) {    // half of the inner dimension
    for (u32 from = 0; from < 4; ++from) {  // lane of a group that holds inner elements 8 half + 2 from, + 1
      const u32 upper = __shfl_sync(all_lanes, a[2 * half], static_cast<int>(4 * row + from));
      const u32 lower = __shfl_sync(all_lanes, a[2 * half + 1], static_cast<int>(4 * row + from));
      for (u32 j = 0; j < 2; ++j) {
        const u32 right = __shfl_sync(all_lanes, b[half], static_cast<int>(4 * (column + j) + from));
        d[j] = fmaf(first_of_pair<Half>(upper), first_of_pair<Half>(right), d[j]);
        d[j] = fmaf(second_of_pair<Half>(upper), second_of_pair<Half>(right), d[j]);
        d[2 + j] = fmaf(first_of_pair<Half>(lower), first_of_pair<Half>(right), d[2 + j]);
        d[2 + j] = fmaf(second_of_pair<Half>(lower), second_of_pair<Half>(right), d[2 + j]);
      }
    }
  }
}

// d += a b, called by a whole warp.
template <class Half>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::mma_16x8x16(d, a, b, std::is_same_v<Half, Fp16>);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Half, Fp16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  if constexpr (std::is_same_v<Half, Fp16>) {
    UNROLL for (u32 half = 0; half < 2; ++half) {  // half of the inner dimension
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
    }
  } else {
    mma_plain<Half>(d, a, b);
  }
#else
  mma_plain<Half>(d, a, b);
#endif
}

// RETURNS: true if the GPU compiled for has this instruction. Kernels that use it are empty elsewhere.
template <class Half>
constexpr bool has_mma_16x8x16() {
#if defined(CUDA_EMULATED)
  return true;
#elif defined(__CUDA_ARCH__)
  return __CUDA_ARCH__ >= 800 || (__CUDA_ARCH__ >= 750 && std::is_same_v<Half, Fp16>);
#else
  return false;
#endif
}

// Loads four 8 x 8 matrices of 16-bit elements from shared memory: lane i names row i % 8 of matrix i / 8,
// aligned to 16 bytes. r[m] receives, from matrix m, elements pair, pair + 1 of row lane / 4; so r is an `a`
// fragment if the matrices are upper left, lower left, upper right, lower right of a tile.
__device__ __forceinline__ void load_matrices(u32 (&r)[4], const void* row) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::load_matrices(r, row, false);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
#else
  const auto mine = reinterpret_cast<unsigned long long>(row);
  for (u32 m = 0; m < 4; ++m) {
    const auto from = __shfl_sync(all_lanes, mine, static_cast<int>(8 * m + lane_index() / 4));
    r[m] = reinterpret_cast<const u32*>(from)[lane_index() % 4];
  }
#endif
}

// The same for the transposed matrices: r[m] receives elements (pair, lane / 4) and (pair + 1, lane / 4).
__device__ __forceinline__ void load_matrices_transposed(u32 (&r)[4], const void* row) {
#if defined(CUDA_EMULATED)
  ::emulated_cuda::load_matrices(r, row, true);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
#else
  const auto mine = reinterpret_cast<unsigned long long>(row);
  for (u32 m = 0; m < 4; ++m) {
    const int pair = static_cast<int>(8 * m + 2 * (lane_index() % 4));
    const auto first = __shfl_sync(all_lanes, mine, pair), second = __shfl_sync(all_lanes, mine, pair + 1);
    r[m] = u32{reinterpret_cast<const u16*>(first)[lane_index() / 4]} |
           u32{reinterpret_cast<const u16*>(second)[lane_index() / 4]} << 16;
  }
#endif
}

}  // namespace tidepool::cuda
