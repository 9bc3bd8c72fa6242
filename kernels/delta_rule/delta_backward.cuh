// Arguments of the kernels of the gated delta rule's backward, and their workspace.
#pragma once

#include "kernels/delta_rule/delta_block.cuh"

namespace tidepool::cuda {

// The arrays of delta_states() of delta_rule.h; a key head has delta_heads_at_once() value heads at a time.
struct DeltaWorkspace {
  float *states, *gradients, *corrections, *solutions;
  u32 at_once;

  DeltaWorkspace(const DeltaShape& s, float* at) : at_once(delta_heads_at_once(s)) {
    const u64 heads = u64{s.sequences} * s.key_heads * at_once, state = u64{s.key_size} * s.value_size;
    states = at;
    gradients = states + heads * delta_state_slots(s) * state;
    corrections = gradients + heads * delta_gradient_slots(s) * state;
    solutions = corrections + (s.corrects() ? heads * s.tokens * s.value_size : 0);
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
  // A head's number among those of a sequence that are computed at once.
  __device__ __forceinline__ u32 number(const DeltaShape& s, const DeltaPlace& place) const {
    return place.key_head() * at_once + place.head % s.heads_per_key() % at_once;
  }
  __device__ __forceinline__ u64 slot(const DeltaShape& s, const DeltaPlace& place, u64 slots, u64 at) const {
    return ((u64{place.sequence} * s.key_heads * at_once + number(s, place)) * slots + at) * s.key_size *
           s.value_size;
  }
  __device__ __forceinline__ u64 row(const DeltaShape& s, const DeltaPlace& place, u64 rows, u64 at) const {
    return ((place.sequence * rows + at) * s.key_heads * at_once + number(s, place)) * s.value_size;
  }
};

// A launch has the same value heads of every key head: those from number `first` of the key head's on.
template <class T>
struct DeltaBackwardArguments {
  DeltaArrays<T> in;
  const T* dout;
  T *dqkv, *dprojected;
  float* partials;  // [groups of delta_chunk_tokens tokens, delta_head_sums(), NV], or null
  DeltaWorkspace work;
  const float* dstate_after;
  float* dstate_before;
  u32 first, segment;

  // The state before a chunk that is not the first, and the gradient of that after one that is not the last.
  __device__ __forceinline__ const float* state_before(const DeltaPlace& place,
                                                       const DeltaChunk& chunk) const {
    return chunk.continues_tile_before() ? in.state_before + place.state()
                                         : work.state(in.shape, place, chunk.begin);
  }
  __device__ __forceinline__ const float* gradient_after(const DeltaPlace& place,
                                                         const DeltaChunk& chunk) const {
    return chunk.end() == in.shape.tokens ? dstate_after + place.state()
                                          : work.gradient(in.shape, place, chunk.end());
  }

  // `number`: of the launch's heads of a sequence, `each` of which belong to a key head.
  __device__ __forceinline__ DeltaPlace place(u32 sequence, u32 number, u32 each) const {
    return {in.shape, sequence, number / each * in.shape.heads_per_key() + first + number % each};
  }
};

}  // namespace tidepool::cuda
