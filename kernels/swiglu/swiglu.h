// SwiGLU (Shazeer, arXiv:2002.05202): y = silu(gate) * up, silu(x) = x / (1 + e^-x).
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

struct Swiglu {
  u32 rows = 0, columns = 0;  // R, I
  ConstValues gate_up;        // [R, 2 I]: gate, then up
  Values y;                   // [R, I]
};
void swiglu_cpu(const Swiglu&, CorePool&);

struct SwigluBackward {
  u32 rows = 0, columns = 0;
  ConstValues gate_up;  // [R, 2 I]
  ConstValues dy;       // [R, I]
  Values dgate_up;      // [R, 2 I], may be gate_up
  Values value;         // [R, I]: y again, which costs next to nothing here and saves keeping it; or null.
                        // May be dy
};
void swiglu_backward_cpu(const SwigluBackward&, CorePool&);

}  // namespace tidepool
