// SwiGLU or GeGLU of one row.
#pragma once

#include "kernels/glu/glu.h"

namespace tidepool {

void glu_row(GluGate, const float* gate, const float* up, float* y, u64 n);

struct GluRowBackward {
  const float* gate;
  const float* up;
  const float* dy;
  float* dgate;  // may be gate
  float* dup;    // may be up
  float* value;  // y, recomputed, or null; may be dy
};
void glu_backward_row(GluGate, const GluRowBackward&, u64 n);

}  // namespace tidepool
