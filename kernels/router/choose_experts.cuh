// Chooses a token's experts by a warp: in each round, the best of the experts that are worse than the last
// one chosen. Keys lie in shared memory and are never written meanwhile.
#pragma once

#include "kernels/router/router_device.cuh"

namespace tidepool::cuda {

// Integers in the order of scores: NaN lowest, both zeros equal. `key_of_none` is lower than all.
inline constexpr u32 key_of_none = 0, key_of_nan = 1;
__device__ __forceinline__ u32 key_of(float x) {
  if (x != x) return key_of_nan;
  const u32 bits = __float_as_uint(x + 0.0f);
  return (bits >> 31 != 0 ? ~bits : bits | 0x8000'0000u) + 1;  // infinity's is 0xff80'0001
}
__device__ __forceinline__ float value_of_key(u32 key) {
  if (key == key_of_nan) return -INFINITY;
  const u32 bits = key - 1;
  return __uint_as_float(bits >> 31 != 0 ? bits & 0x7fff'ffffu : ~bits);
}

// A key and its index: the larger candidate is the better one, and of equal keys the lower index. 0: none.
using Candidate = unsigned long long;
__device__ __forceinline__ Candidate candidate_of(u32 key, u32 index) {
  return key == key_of_none ? 0 : Candidate{key} << 32 | ~index;
}
__device__ __forceinline__ u32 index_of(Candidate c) { return ~static_cast<u32>(c); }
inline constexpr Candidate above_all = ~Candidate{0};  // no candidate's key is that high

// RETURNS: the best candidate_at(i), i < count, that is worse than `last`.
template <class At>
__device__ __forceinline__ Candidate next_best(u32 count, Candidate last, At candidate_at) {
  Candidate best = 0;
  for_experts_of_lane(count, [&](u32 i) {
    const Candidate c = candidate_at(i);
    if (c < last && c > best) best = c;
  });
  for (u32 step = 16; step > 0; step /= 2) {
    const Candidate other = __shfl_xor_sync(all_lanes, best, static_cast<int>(step));
    best = other > best ? other : best;
  }
  return best;
}

// The key of the sum of a group's two best scores.
__device__ __forceinline__ u32 group_key(const u32* keys, u32 size) {
  u32 first = key_of_nan, second = key_of_nan;
  for (u32 i = 0; i < size; ++i) {
    if (keys[i] > first) {
      second = first;
      first = keys[i];
    } else if (keys[i] > second) {
      second = keys[i];
    }
  }
  return key_of(value_of_key(first) + (size > 1 ? value_of_key(second) : 0.0f));
}

// Removes the keys of experts of all but the best groups.
__device__ __forceinline__ void keep_best_groups(const RouterRule& rule, u32* keys) {
  const u32 size = rule.experts / rule.groups;
  const auto candidate = [&](u32 group) { return candidate_of(group_key(keys + group * size, size), group); };
  Candidate last = above_all;
  for (u32 i = 0; i < rule.chosen_groups; ++i) last = next_best(rule.groups, last, candidate);
  __syncwarp();
  for_experts_of_lane(rule.groups, [&](u32 group) {
    if (candidate(group) >= last) return;
    for (u32 i = 0; i < size; ++i) keys[group * size + i] = key_of_none;
  });
  __syncwarp();
}

}  // namespace tidepool::cuda
