// Gated linear units (Shazeer, arXiv:2002.05202): y = act(gate) * up. SwiGLU has silu(x) = x / (1 + e^-x),
// and GeGLU has GELU in its tanh form. Experts without a gate have the same rows, and one factor.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

enum class GluGate : u8 {
  silu,
  gelu,
  // gpt-oss: g = min(gate, L), u = up bounded to [-L, L], y = (u + 1) g / (1 + e^(-a g)). Gradients are zero
  // where a bound was exceeded, as torch.clamp has them.
  clamped,
  // No gate: gate_up is [R, I], and y = relu(gate_up)^2.
  squared_relu,
};
// RETURNS: columns of gate_up for one of y.
constexpr u32 glu_inputs(GluGate gate) { return gate == GluGate::squared_relu ? 1 : 2; }
// Numbers of GluGate::clamped; the defaults are those of the published models.
struct GluClamp {
  float bound = 7.0f, slope = 1.702f;  // L, a
};

struct Glu {
  u32 rows = 0, columns = 0;  // R, I
  u32 expected_rows = 0;      // for costs; 0: rows
  GluGate gate = GluGate::silu;
  GluClamp clamp;                  // GluGate::clamped only
  bool interleaved = false;        // gate in even columns, up in odd columns
  const i32* row_count = nullptr;  // [1] the true number of rows, at most R; null: R
  ConstValues gate_up;             // [R, 2 I]: gate, then up
  Values y;                        // [R, I]
};
void glu_cpu(const Glu&, CorePool&);

// With `weights`, rows are those of experts (kernels/experts/experts.h), and dy is the gradient of w y, w the
// row's weight: dweights[slot] = <dy, y>, the gradients of gate and up follow from w dy, and `value` gets w
// y.
struct GluBackward {
  u32 rows = 0, columns = 0;
  u32 expected_rows = 0;  // for costs; 0: rows
  GluGate gate = GluGate::silu;
  GluClamp clamp;                  // GluGate::clamped only
  bool interleaved = false;        // as in the forward; of dgate_up too
  const i32* row_count = nullptr;  // [1] the true number of rows, at most R; null: R
  ConstValues gate_up;             // [R, 2 I]
  ConstValues dy;                  // [R, I]
  Values dgate_up;                 // [R, 2 I], may be gate_up
  Values value;                    // [R, I]: y, recomputed at almost no cost, so that forward need not keep
                                   // it; or null. May be dy
  const i32* slots = nullptr;      // [R] of the rows; with weights only
  const float* weights = nullptr;  // [tokens, k] by slot, or null: 1
  float* dweights = nullptr;       // [tokens, k] by slot, overwritten at the rows' slots; or null
};
void glu_backward_cpu(const GluBackward&, CorePool&);

}  // namespace tidepool
