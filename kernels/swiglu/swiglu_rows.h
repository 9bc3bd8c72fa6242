// SwiGLU or GeGLU of one row.
#pragma once

#include "kernels/swiglu/swiglu.h"

namespace tidepool {

void swiglu_row(GluGate, const float* gate, const float* up, float* y, u64 n);

struct SwigluRowBackward {
  const float* gate;
  const float* up;
  const float* dy;
  float* dgate;  // may be gate
  float* dup;    // may be up
  float* value;  // y, recomputed, or null; may be dy
};
void swiglu_backward_row(GluGate, const SwigluRowBackward&, u64 n);

}  // namespace tidepool
