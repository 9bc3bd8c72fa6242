// Output gates of attention (Qiu et al., arXiv:2505.06708), as Qwen3-Next and Qwen3.5 have them: y = x s, s =
// 1 / (1 + e^-gate). A gate is an element's, or one for a whole head. The gates may lie between other
// columns, such as behind each head of q, so they have strides.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

inline constexpr u32 gate_group_rows = 32;

struct GateShape {
  u32 rows = 0, heads = 0, head_size = 0;  // R, NH, D
  u32 gate_size = 0;                       // D, or 1: one gate for the whole head
  // Elements from row to row and from head to head of the gates. Gates do not overlap.
  u32 row_stride = 0, head_stride = 0;

  constexpr u32 columns() const { return heads * head_size; }
  constexpr u64 gate_at(u64 row, u32 head) const { return row * row_stride + u64{head} * head_stride; }
  bool operator==(const GateShape&) const = default;
};

struct SigmoidGate {
  GateShape shape;
  ConstValues x;      // [R, NH D]
  ConstValues gates;  // the gate of row 0, head 0, column 0
  Values y;           // [R, NH D]; may be x
};
void sigmoid_gate_cpu(const SigmoidGate&, CorePool&);

// dx = dy s; the gradient of a gate is dy x s (1 - s), for a whole head's gate summed over the head's columns
// in a fixed order.
struct SigmoidGateBackward {
  GateShape shape;
  ConstValues x, gates;  // as in the forward
  ConstValues dy;        // [R, NH D]
  Values dx;             // [R, NH D]; may be dy
  Values dgates;         // at the strides of `gates`, and may be them; other columns keep what they hold
};
void sigmoid_gate_backward_cpu(const SigmoidGateBackward&, CorePool&);

}  // namespace tidepool
