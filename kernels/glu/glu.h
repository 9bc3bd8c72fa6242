// Gated linear units (Shazeer, arXiv:2002.05202): y = act(gate) * up. SwiGLU has silu(x) = x / (1 + e^-x),
// and GeGLU has GELU in its tanh form.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

enum class GluGate : u8 { silu, gelu };

struct Glu {
  u32 rows = 0, columns = 0;  // R, I
  GluGate gate = GluGate::silu;
  ConstValues gate_up;  // [R, 2 I]: gate, then up
  Values y;             // [R, I]
};
void glu_cpu(const Glu&, CorePool&);

struct GluBackward {
  u32 rows = 0, columns = 0;
  GluGate gate = GluGate::silu;
  ConstValues gate_up;  // [R, 2 I]
  ConstValues dy;       // [R, I]
  Values dgate_up;      // [R, 2 I], may be gate_up
  Values value;         // [R, I]: y, recomputed at almost no cost, so that forward need not keep it; or null.
                        // May be dy
};
void glu_backward_cpu(const GluBackward&, CorePool&);

}  // namespace tidepool
