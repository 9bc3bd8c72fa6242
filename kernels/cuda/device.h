// Vocabulary of device code, for nvcc and for the emulation alike (tests/emulated_cuda).
//
// Elements. A kernel is a template over the types of its arrays: `float`; `Bf16` for upper halves, which the
//   project rounds half up (kernels/gradient/gradient.h); `Fp16` for IEEE halves, rounded to nearest even
//   (tidepool/fp16.h). widened(T) and narrowed<T>(float) convert; for_precision (kernels/cuda/dispatch.h)
//   picks the types on the host.
// Vectors. A thread takes eight neighbours at a time: load8 and store8. With `whole` (all bases aligned to 16
//   bytes, row lengths a multiple of 8: see rows_of_vectors) they are 16-byte accesses; otherwise they go
//   element by element up to `n`, so that any shape and alignment works.
// Reductions. warp_sum, warp_max, block_sum, block_max: fixed order, every thread gets the result.
// Shared memory. BLOCK_SHARED(float[32], name) and dynamic_shared<T>(); never plain __shared__, which the
//   emulation could not poison.
// Tensor cores, ldmatrix: kernels/cuda/tensor_core.h. Asynchronous copies: kernels/cuda/async_copy.h.
//
// REQUIRES: with warp or block reductions, blocks have a multiple of 32 threads along x.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/cuda/launch_shape.h"
#ifdef CUDA_EMULATED
#include "tidepool/fp16.h"
#endif

// UNROLL precedes a loop over an array that must stay in registers: every index must be a constant. g++ does
// not know this pragma.
#ifdef CUDA_EMULATED
#define UNROLL
#define KEEP_ROLLED
#else
#define UNROLL _Pragma("unroll")
#define KEEP_ROLLED _Pragma("unroll 1")
#endif

// BLOCK_SHARED(float[32], sums): one array per block, uninitialised.
#ifdef CUDA_EMULATED
#define BLOCK_SHARED(type, name)                                       \
  static char name##_key;                                              \
  auto& name = *reinterpret_cast<::tidepool::cuda::SharedType<type>*>( \
      ::emulated_cuda::static_shared_memory(&name##_key, sizeof(type), alignof(type)))
#else
#define BLOCK_SHARED(type, name) __shared__ ::tidepool::cuda::SharedType<type> name
#endif

namespace tidepool::cuda {

template <class T>
using SharedType = T;

// RETURNS: the launch's dynamic shared memory, aligned to 16 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef CUDA_EMULATED
  return reinterpret_cast<T*>(::emulated_cuda::dynamic_shared_memory());
#else
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#endif
}

inline constexpr u32 all_lanes = 0xffff'ffff;

__device__ __forceinline__ u32 lane_index() { return threadIdx.x % 32; }
__device__ __forceinline__ u32 warp_index() { return threadIdx.x / 32; }
// REQUIRES: a grid of one dimension.
__device__ __forceinline__ u64 grid_thread() { return u64{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 grid_threads() { return u64{gridDim.x} * blockDim.x; }

// bf16: the upper half of a float.
struct Bf16 {
  u16 bits;
};
// IEEE half precision.
struct Fp16 {
  u16 bits;
};

__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(Bf16 x) { return __uint_as_float(u32{x.bits} << 16); }

// (bits + 0x8000) >> 16, NaN canonical.
__device__ __forceinline__ Bf16 bf16_from(float x) {
  const u32 bits = x != x ? 0x7fc0'0000u : __float_as_uint(x);
  return {static_cast<u16>((bits + 0x8000u) >> 16)};
}

__device__ __forceinline__ float widened(Fp16 x) {
#ifdef CUDA_EMULATED
  return float_from_fp16(x.bits);
#else
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
#endif
}
// Rounds to nearest, ties to even, NaN canonical.
__device__ __forceinline__ Fp16 fp16_from(float x) {
#ifdef CUDA_EMULATED
  return {fp16_from_float(x)};
#else
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {x != x ? static_cast<u16>(0x7e00) : bits};
#endif
}
template <class T>
__device__ __forceinline__ T narrowed(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return bf16_from(x);
  } else {
    return fp16_from(x);
  }
}
// Packs two neighbours as they lie in memory, the first in the lower half: the operand format of tensor
// cores.
template <class Half>
__device__ __forceinline__ u32 pair_of(float first, float second) {
  return u32{narrowed<Half>(first).bits} | u32{narrowed<Half>(second).bits} << 16;
}
template <class Half>
__device__ __forceinline__ float first_of_pair(u32 pair) {
  return widened(Half{static_cast<u16>(pair)});
}
template <class Half>
__device__ __forceinline__ float second_of_pair(u32 pair) {
  return widened(Half{static_cast<u16>(pair >> 16)});
}

// v = p[at, at + 8); elements at or above n are 0. `whole`: p + at is aligned to 16 bytes and at + 8 <= n.
template <bool whole>
__device__ __forceinline__ void load8(const float* p, u64 at, u64 n, float (&v)[8]) {
  if constexpr (whole) {
    const float4 a = *reinterpret_cast<const float4*>(p + at),
                 b = *reinterpret_cast<const float4*>(p + at + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  } else {
    for (u32 i = 0; i < 8; ++i) v[i] = at + i < n ? p[at + i] : 0.0f;
  }
}
template <bool whole, class Half>
__device__ __forceinline__ void load8(const Half* p, u64 at, u64 n, float (&v)[8]) {
  if constexpr (whole) {
    const uint4 a = *reinterpret_cast<const uint4*>(p + at);
    const u32 pairs[4] = {a.x, a.y, a.z, a.w};
    UNROLL for (u32 i = 0; i < 4; ++i) {
      v[2 * i] = first_of_pair<Half>(pairs[i]);
      v[2 * i + 1] = second_of_pair<Half>(pairs[i]);
    }
  } else {
    for (u32 i = 0; i < 8; ++i) v[i] = at + i < n ? widened(p[at + i]) : 0.0f;
  }
}

// p[at, at + 8) = v, only below n.
template <bool whole>
__device__ __forceinline__ void store8(float* p, u64 at, u64 n, const float (&v)[8]) {
  if constexpr (whole) {
    *reinterpret_cast<float4*>(p + at) = make_float4(v[0], v[1], v[2], v[3]);
    *reinterpret_cast<float4*>(p + at + 4) = make_float4(v[4], v[5], v[6], v[7]);
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i < n) p[at + i] = v[i];
    }
  }
}
template <bool whole, class Half>
__device__ __forceinline__ void store8(Half* p, u64 at, u64 n, const float (&v)[8]) {
  if constexpr (whole) {
    *reinterpret_cast<uint4*>(p + at) = make_uint4(pair_of<Half>(v[0], v[1]), pair_of<Half>(v[2], v[3]),
                                                   pair_of<Half>(v[4], v[5]), pair_of<Half>(v[6], v[7]));
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i < n) p[at + i] = narrowed<Half>(v[i]);
    }
  }
}

// Reduce over the 32 lanes of a warp, all of them active. The butterfly adds the same pairs in every lane, so
// all lanes get the same bits.
__device__ __forceinline__ float warp_sum(float x) {
  for (u32 step = 16; step > 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, static_cast<int>(step));
  return x;
}
__device__ __forceinline__ double warp_sum(double x) {
  for (u32 step = 16; step > 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, static_cast<int>(step));
  return x;
}
__device__ __forceinline__ u32 warp_sum(u32 x) {
  for (u32 step = 16; step > 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, static_cast<int>(step));
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (u32 step = 16; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(all_lanes, x, static_cast<int>(step)));
  return x;
}

// Reduce over a block of one dimension; all threads call it. Two barriers, so it may be called again at once.
template <class T>
__device__ __forceinline__ T block_sum(T x) {
  BLOCK_SHARED(T[32], sums);
  x = warp_sum(x);
  if (lane_index() == 0) sums[warp_index()] = x;
  __syncthreads();
  x = warp_sum(lane_index() < blockDim.x / 32 ? sums[lane_index()] : T{0});
  __syncthreads();
  return x;
}
__device__ __forceinline__ float block_max(float x) {
  BLOCK_SHARED(float[32], maxima);
  x = warp_max(x);
  if (lane_index() == 0) maxima[warp_index()] = x;
  __syncthreads();
  x = warp_max(maxima[lane_index() < blockDim.x / 32 ? lane_index() : 0]);
  __syncthreads();
  return x;
}

}  // namespace tidepool::cuda
