// Host side of the gated delta rule's launches: turns operations into kernel arguments.
#pragma once

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/delta_rule/delta_slice.cuh"

namespace tidepool::cuda {

// `op`: GatedDelta or GatedDeltaBackward.
template <class Op>
void check_delta(const Op& op) {
  const DeltaShape& s = op.shape;
  check_same_precision({op.a_log, op.dt_bias});
  require(s.corrects() || bool(op.skip), "Mamba-2 has a skip for each head");
  require(s.key_heads > 0 && s.value_heads % s.key_heads == 0, "value heads share key heads evenly");
  require(s.key_size >= 1 && s.key_size <= delta_head_size_max, "a head has keys of 1 to 256 elements");
  require(s.value_size >= 1 && s.value_size <= delta_head_size_max, "a head has values of 1 to 256 elements");
}

// Calls fn(rule), a constant.
template <class Fn>
void for_state_rule(const DeltaShape& s, Fn fn) {
  if (s.corrects()) return fn(std::integral_constant<StateRule, StateRule::delta>());
  fn(std::integral_constant<StateRule, StateRule::mamba>());
}

// `aligned`: every array that is read 16 bytes at a time begins there.
template <class T, class Op>
DeltaArrays<T> delta_arrays(const Op& op, bool aligned) {
  const DeltaShape& s = op.shape;
  return {.shape = s,
          .qkv = elements<T>(op.qkv),
          .projected = elements<T>(op.projected),
          .a_log = {op.a_log.data, op.a_log.precision},
          .dt_bias = {op.dt_bias.data, op.dt_bias.precision},
          .skip = {op.skip.data, op.skip.precision},
          .steps = op.steps,
          .starts = op.starts,
          .state_before = op.state_before,
          .whole = aligned && s.key_size % vector_elements == 0 && s.value_size % vector_elements == 0};
}

}  // namespace tidepool::cuda
