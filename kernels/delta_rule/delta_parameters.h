// delta_inputs() gives a head of the gated delta rule its numbers besides its rows.
#pragma once

#include <cmath>

#include "base/check.h"
#include "kernels/delta_rule/delta_head.h"
#include "kernels/simd/rows.h"

namespace tidepool {

inline void check_delta_heads(const DeltaShape& s) {
  CHECK(s.key_heads > 0 && s.value_heads % s.key_heads == 0, s.key_heads, s.value_heads);
  CHECK(s.key_size <= delta_head_size_max && s.value_size <= delta_head_size_max, s.key_size, s.value_size);
}

// `op`: GatedDelta or GatedDeltaBackward.
template <class Op>
DeltaInputs delta_inputs(const Op& op, u32 head) {
  float a_log, dt_bias, skip = 0;
  const float a = *rows::widened(op.a_log.at(head), 1, &a_log);
  return {.qkv = op.qkv.fp32(),
          .projected = op.projected.fp32(),
          .rate = -std::exp(a),
          .dt_bias = *rows::widened(op.dt_bias.at(head), 1, &dt_bias),
          .skip = op.shape.corrects() ? 0 : *rows::widened(op.skip.at(head), 1, &skip),
          .steps = op.steps};
}

}  // namespace tidepool
