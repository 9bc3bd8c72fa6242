// Heads of the rotation on the device: a group of lanes takes a head, eight pairs of elements per lane.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/rotary/rotary_launch.h"

namespace tidepool::cuda {

// Elements of a pair, counted from the head's first.
struct PairElements {
  u32 first, second;  // the head's size: no such element
};

// Pairs of a head. Pair p < turned is elements p and p + turned, or 2p and 2p + 1, and is rotated. The pairs
// after them are elements that are not rotated, `rest` apart.
struct RotarySizes {
  u32 tokens, first_token, heads, kv_heads, head_size;
  u32 turned;       // rotated pairs
  u32 rest;         // other pairs
  float factor;     // on cosine and sine
  bool neighbours;  // pair p is elements 2p and 2p + 1
  float query_growth;
  u32 query_period;
  RotaryValues values;
  u32 lanes;             // lanes per group; a group takes a head
  const i32* starts;     // or null
  const KeyHole* holes;  // or null
  float frequencies[rotary_pairs_max];

  __device__ __forceinline__ PairElements elements(u32 pair) const {
    if (pair < turned && neighbours) return {2 * pair, 2 * pair + 1};
    if (pair < turned) return {pair, pair + turned};
    if (pair >= turned + rest) return {head_size, head_size};
    const u32 first = pair + turned, second = first + rest;  // the rest begins at 2 turned
    return {first, second < head_size ? second : head_size};
  }
};

// Rows of heads: q's at a stride, then k's, then v's, unless v is k.
struct RotaryRows {
  u32 heads, head_size, query_stride, columns;
  u32 values;  // first head of v

  // First element of a head, q's heads before k's.
  __device__ __forceinline__ u64 at(u64 row, u32 head) const {
    const u32 of_q = head < heads ? head : heads;
    return row * columns + u64{of_q} * query_stride + u64{head - of_q} * head_size;
  }
};

// cosine[i], sine[i] of a row; direction: 1 forward, -1 back. All threads call it; it ends with a barrier.
struct RotaryAngles {
  float cosine[rotary_pairs_max], sine[rotary_pairs_max];
  float query;  // factor on q, if q grows with its position
};
__device__ __forceinline__ void make_angles(const RotarySizes& s, u32 row, float direction,
                                            RotaryAngles& angles) {
  u32 position = s.first_token + row % s.tokens;
  if (s.starts != nullptr) position -= static_cast<u32>(s.starts[row]);
  if (s.holes != nullptr) position -= s.holes[row].length();
  for (u32 i = threadIdx.x; i < s.turned; i += blockDim.x) {
    const float angle = static_cast<float>(position) * s.frequencies[i];
    angles.cosine[i] = s.factor * cosf(angle);
    angles.sine[i] = direction * s.factor * sinf(angle);
  }
  if (s.query_growth != 0 && threadIdx.x == 0)
    angles.query = 1.0f + s.query_growth * logf(1.0f + static_cast<float>(position / s.query_period));
  __syncthreads();
}

// Eight pairs, a[i] with b[i]; elements that the head does not have are 0, and are not stored. With `whole`,
// eight pairs are all rotated, or none, and their first elements are a vector, and so are their second
// elements.
struct RotaryPairs {
  float a[8], b[8];

  // REQUIRES: all are 0.
  template <bool whole, class T>
  __device__ __forceinline__ void load(const T* head, u32 pair, const RotarySizes& s) {
    const u32 size = s.head_size;
    if constexpr (whole) {
      const PairElements at = s.elements(pair);
      if (at.first < size) load8<true>(head, at.first, size, a);
      if (at.second < size) load8<true>(head, at.second, size, b);
    } else {
      UNROLL for (u32 i = 0; i < 8; ++i) {
        const PairElements at = s.elements(pair + i);
        a[i] = at.first < size ? widened(head[at.first]) : 0.0f;
        b[i] = at.second < size ? widened(head[at.second]) : 0.0f;
      }
    }
  }
  template <bool whole, class T>
  __device__ __forceinline__ void store(T* head, u32 pair, const RotarySizes& s) const {
    const u32 size = s.head_size;
    if constexpr (whole) {
      const PairElements at = s.elements(pair);
      if (at.first < size) store8<true>(head, at.first, size, a);
      if (at.second < size) store8<true>(head, at.second, size, b);
    } else {
      UNROLL for (u32 i = 0; i < 8; ++i) {
        const PairElements at = s.elements(pair + i);
        if (at.first < size) head[at.first] = narrowed<T>(a[i]);
        if (at.second < size) head[at.second] = narrowed<T>(b[i]);
      }
    }
  }
  __device__ __forceinline__ void turn(const RotaryAngles& angles, u32 pair, u32 turned) {
    UNROLL for (u32 i = 0; i < 8; ++i) {
      if (pair + i >= turned) continue;
      const float c = angles.cosine[pair + i], s = angles.sine[pair + i], x = a[i], y = b[i];
      a[i] = fmaf(-y, s, x * c);
      b[i] = fmaf(x, s, y * c);
    }
  }
  __device__ __forceinline__ void scale(float factor) {
    UNROLL for (u32 i = 0; i < 8; ++i) {
      a[i] *= factor;
      b[i] *= factor;
    }
  }
  __device__ __forceinline__ void add(const RotaryPairs& x) {
    UNROLL for (u32 i = 0; i < 8; ++i) {
      a[i] += x.a[i];
      b[i] += x.b[i];
    }
  }
};

// Sum over the lanes of a group.
__device__ __forceinline__ float group_sum(float x, u32 lanes) {
  for (u32 flip = lanes / 2; flip > 0; flip /= 2) x += __shfl_xor_sync(all_lanes, x, static_cast<int>(flip));
  return x;
}

// 1 / sqrt(mean(x^2) + epsilon) of a head.
// REQUIRES: every lane of the warp calls it.
__device__ __forceinline__ float head_rstd(const RotaryPairs& x, float epsilon, const RotarySizes& s) {
  float square = 0;
  UNROLL for (u32 i = 0; i < 8; ++i) square = fmaf(x.a[i], x.a[i], fmaf(x.b[i], x.b[i], square));
  return 1.0f / sqrtf(group_sum(square, s.lanes) / static_cast<float>(s.head_size) + epsilon);
}

// A thread's place: a lane of a group; groups take heads in turn.
struct RotaryPlace {
  u32 pair, group, groups;

  __device__ __forceinline__ explicit RotaryPlace(const RotarySizes& s)
      : pair(threadIdx.x % s.lanes * vector_elements),
        group(threadIdx.x / s.lanes),
        groups(blockDim.x / s.lanes) {}
};

}  // namespace tidepool::cuda
