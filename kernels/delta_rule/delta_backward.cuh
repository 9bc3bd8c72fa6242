// Arguments of the kernels of the gated delta rule's backward, and their workspace.
#pragma once

#include "kernels/delta_rule/delta_block.cuh"

namespace tidepool::cuda {

// The arrays of delta_states() of delta_rule.h; `key_head` has one value head at a time.
struct DeltaWorkspace {
  float *states, *gradients, *corrections, *solutions;

  DeltaWorkspace(const DeltaShape& s, float* at) {
    const u64 heads = u64{s.sequences} * s.key_heads, state = u64{s.key_size} * s.value_size;
    states = at;
    gradients = states + heads * delta_state_slots(s) * state;
    corrections = gradients + heads * delta_gradient_slots(s) * state;
    solutions = corrections + heads * s.tokens * s.value_size;
  }
  // The state at the boundary before the chunk that begins with a token, and its gradient.
  __device__ __forceinline__ float* state(const DeltaShape& s, const DeltaPlace& place, u32 token) const {
    return states + slot(s, place, delta_state_slots(s), token / delta_chunk_tokens - 1);
  }
  __device__ __forceinline__ float* gradient(const DeltaShape& s, const DeltaPlace& place, u32 token) const {
    const u64 slots = delta_gradient_slots(s);
    return gradients + slot(s, place, slots, (token / delta_chunk_tokens - 1) % slots);
  }
  // A token's X, and its Y.
  __device__ __forceinline__ float* correction(const DeltaShape& s, const DeltaPlace& place,
                                               u32 token) const {
    return corrections + row(s, place, s.tokens, token);
  }
  __device__ __forceinline__ float* solution(const DeltaShape& s, const DeltaPlace& place, u32 token) const {
    const u64 rows = delta_solution_rows(s);
    return solutions + row(s, place, rows, token % rows);
  }

 private:
  static __device__ __forceinline__ u64 slot(const DeltaShape& s, const DeltaPlace& place, u64 slots,
                                             u64 at) {
    return ((u64{place.sequence} * s.key_heads + place.key_head()) * slots + at) * s.key_size * s.value_size;
  }
  static __device__ __forceinline__ u64 row(const DeltaShape& s, const DeltaPlace& place, u64 rows, u64 at) {
    return ((place.sequence * rows + at) * s.key_heads + place.key_head()) * s.value_size;
  }
};

// A launch has one value head of every key head: number `turn` of the key head's.
template <class T>
struct DeltaBackwardArguments {
  DeltaArrays<T> in;
  const T* dout;
  T *dqkv, *dprojected;
  float* partials;  // [groups of delta_chunk_tokens tokens, da_log and ddt_bias, NV], or null
  DeltaWorkspace work;
  u32 turn, segment;

  __device__ __forceinline__ DeltaPlace place(u32 sequence, u32 key_head) const {
    return {in.shape, sequence, key_head * in.shape.heads_per_key() + turn};
  }
};

}  // namespace tidepool::cuda
