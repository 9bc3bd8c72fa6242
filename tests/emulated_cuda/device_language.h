// CUDA's device language for a C++ compiler of the host: the subset that our kernels use. Other features do
// not compile, on purpose: __shared__ (write BLOCK_SHARED or dynamic_shared, see kernels/cuda/device.h, so
// that it can be poisoned), atomics and fast approximations.
#pragma once

#include <bit>
#include <cmath>
#include <source_location>
#include <type_traits>

#include "block.h"

#define CUDA_EMULATED 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

#define threadIdx (::emulated_cuda::thread_indices->thread)
#define blockIdx (::emulated_cuda::thread_indices->block)
#define blockDim (::emulated_cuda::thread_indices->block_size)
#define gridDim (::emulated_cuda::thread_indices->grid_size)

inline constexpr int warpSize = 32;

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  emulated_cuda::block_barrier(where);
}
void __syncwarp(unsigned mask = 0xffff'ffffu, std::source_location where = std::source_location::current());

namespace emulated_cuda {

[[noreturn]] void shuffle_from_outside(unsigned lane, unsigned source, unsigned mask);

template <class T>
struct Shuffled {
  T value;
  unsigned source;
};

template <class T>
void run_shuffle(const WarpView& warp) {
  for (unsigned lane = 0; lane < warp_lanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    const unsigned source = static_cast<const Shuffled<T>*>(warp.in[lane])->source;
    if ((warp.mask >> source & 1) == 0) shuffle_from_outside(lane, source, warp.mask);
    *static_cast<T*>(warp.out[lane]) = static_cast<const Shuffled<T>*>(warp.in[source])->value;
  }
}

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const char* name, std::source_location where) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "as CUDA has it");
  const Shuffled<T> in = {value, source};
  T out;
  warp_collective(mask, &in, &out, run_shuffle<T>, name, where);
  return out;
}

// RETURNS: the last lane of this lane's segment of `width`.
inline unsigned segment_end(unsigned lane, int width) { return lane | (static_cast<unsigned>(width) - 1); }

unsigned ballot(unsigned mask, bool predicate, const char* name, std::source_location);

}  // namespace emulated_cuda

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              std::source_location where = std::source_location::current()) {
  const unsigned lane = emulated_cuda::lane_of_thread(), inside = static_cast<unsigned>(width) - 1;
  return emulated_cuda::shuffle(mask, value, (lane & ~inside) | (static_cast<unsigned>(source) & inside),
                                "__shfl_sync", where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flipped, int width = 32,
                  std::source_location where = std::source_location::current()) {
  const unsigned lane = emulated_cuda::lane_of_thread(), source = lane ^ static_cast<unsigned>(flipped);
  return emulated_cuda::shuffle(mask, value,
                                source <= emulated_cuda::segment_end(lane, width) ? source : lane,
                                "__shfl_xor_sync", where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   std::source_location where = std::source_location::current()) {
  const unsigned lane = emulated_cuda::lane_of_thread(), source = lane + delta;
  return emulated_cuda::shuffle(mask, value,
                                source <= emulated_cuda::segment_end(lane, width) ? source : lane,
                                "__shfl_down_sync", where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 std::source_location where = std::source_location::current()) {
  const unsigned lane = emulated_cuda::lane_of_thread(), first = lane & ~(static_cast<unsigned>(width) - 1);
  return emulated_cuda::shuffle(mask, value, lane >= first + delta ? lane - delta : lane, "__shfl_up_sync",
                                where);
}

// Stops the process; a real device stops the kernel, and reports the trap in all later calls.
[[noreturn]] void __trap(std::source_location where = std::source_location::current());

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location where = std::source_location::current()) {
  return emulated_cuda::ballot(mask, predicate != 0, "__ballot_sync", where);
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return emulated_cuda::ballot(mask, predicate != 0, "__any_sync", where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return emulated_cuda::ballot(mask, predicate != 0, "__all_sync", where) == mask;
}

// Arithmetic, rounded to nearest as its names say.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
// Approximations: a real device's results differ in the last bits, so no guarantee of equal bits may depend
// on them.
inline float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
inline float __expf(float a) {
  return std::exp2(a * 1.44269504088896341f);
}  // as a device has it: 1.2 |a| ulps off
inline float __logf(float a) { return std::log(a); }
inline float __fdividef(float a, float b) { return a / b; }

inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __popc(unsigned a) { return std::popcount(a); }
inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __ffs(int a) { return a == 0 ? 0 : std::countr_zero(static_cast<unsigned>(a)) + 1; }

// Loads and stores that differ only in caching.
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}

template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
