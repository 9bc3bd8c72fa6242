// What both rotary kernels are made of: a row's angles, and pairs of a head in registers.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/rotary/rotary_launch.h"

namespace tidepool::cuda {

struct RotarySizes {
  u32 tokens, heads, kv_heads, head_size;
  u32 turned;         // of a head's elements
  u32 lanes;          // of a group that takes a head
  const i32* starts;  // or null
  float frequencies[rotary_pairs_max];
};

// cosine[i], sine[i] of a row; direction: 1 forward, -1 back. All threads call it; a barrier at its end.
struct Angles {
  float cosine[rotary_pairs_max], sine[rotary_pairs_max];
};
__device__ __forceinline__ void make_angles(const RotarySizes& s, u32 row, float direction, Angles& angles) {
  u32 position = row % s.tokens;
  if (s.starts != nullptr) position -= static_cast<u32>(s.starts[row]);
  for (u32 i = threadIdx.x; i < s.turned / 2; i += blockDim.x) {
    const float angle = static_cast<float>(position) * s.frequencies[i];
    angles.cosine[i] = cosf(angle);
    angles.sine[i] = direction * sinf(angle);
  }
  __syncthreads();
}

// Eight pairs: a[i] and b[i] lie half of the turned elements apart.
struct Pairs {
  float a[8], b[8];

  template <bool whole, class T>
  __device__ __forceinline__ void load(const T* head, u32 pair, u32 half) {
    load8<whole>(head, pair, half, a);
    load8<whole>(head + half, pair, half, b);
  }
  template <bool whole, class T>
  __device__ __forceinline__ void store(T* head, u32 pair, u32 half) const {
    store8<whole>(head, pair, half, a);
    store8<whole>(head + half, pair, half, b);
  }
  __device__ __forceinline__ void turn(const Angles& angles, u32 pair, u32 half) {
    UNROLL for (u32 i = 0; i < 8; ++i) {
      if (pair + i >= half) continue;
      const float c = angles.cosine[pair + i], s = angles.sine[pair + i], x = a[i], y = b[i];
      a[i] = fmaf(-y, s, x * c);
      b[i] = fmaf(x, s, y * c);
    }
  }
};

// Over the lanes of a group.
__device__ __forceinline__ float group_sum(float x, u32 lanes) {
  for (u32 flip = lanes / 2; flip > 0; flip /= 2) x += __shfl_xor_sync(all_lanes, x, static_cast<int>(flip));
  return x;
}

// 1 / sqrt(mean(x^2) + epsilon) of a head. Every lane of the warp calls it.
__device__ __forceinline__ float head_rstd(const Pairs& x, float epsilon, const RotarySizes& s) {
  float square = 0;
  UNROLL for (u32 i = 0; i < 8; ++i) square = fmaf(x.a[i], x.a[i], fmaf(x.b[i], x.b[i], square));
  return 1.0f / sqrtf(group_sum(square, s.lanes) / static_cast<float>(s.head_size) + epsilon);
}

// A thread's place: lane of a group; groups take heads in turn.
struct RotaryPlace {
  u32 pair, group, groups;

  __device__ __forceinline__ explicit RotaryPlace(const RotarySizes& s)
      : pair(threadIdx.x % s.lanes * vector_elements),
        group(threadIdx.x / s.lanes),
        groups(blockDim.x / s.lanes) {}
};

}  // namespace tidepool::cuda
