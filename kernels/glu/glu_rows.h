// Gated linear unit of one row.
#pragma once

#include "kernels/glu/glu.h"

namespace tidepool {

struct GluKind {
  GluGate gate = GluGate::silu;
  bool interleaved = false;
  GluClamp clamp;
};
void glu_row(GluKind, const float* gate_up, float* y, u64 n);

struct GluRowBackward {
  const float* gate_up;  // [2 n]; without a gate [n]
  const float* dy;
  float* dgate_up;   // as gate_up, which it may be
  float* value;      // y times weight, recomputed, or null; may be dy
  float weight = 1;  // factor on dy before all gradients
};
// RETURNS: <dy, y> without the weight, summed in fixed order.
float glu_backward_row(GluKind, const GluRowBackward&, u64 n);

}  // namespace tidepool
