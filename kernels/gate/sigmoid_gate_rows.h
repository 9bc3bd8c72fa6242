// Output gate of one head of one row.
#pragma once

#include "base/types.h"

namespace tidepool {

// y = x s. gates: [n], or with `whole_head` [1]. y may be x.
struct GateHead {
  const float* x;      // [n]
  const float* gates;  // [n], or [1] for the whole head
  bool whole_head;
};
void sigmoid_gate_head(const GateHead&, float* y, u64 n);

struct GateHeadBackward {
  GateHead head;
  const float* dy;  // [n]
  float* dx;        // [n], may be dy
  float* dgates;    // as `gates`, and may be them
};
void sigmoid_gate_backward_head(const GateHeadBackward&, u64 n);

}  // namespace tidepool
