// Norms of the residual stream, in every layer and in the head: layer norms or RMS norms, as the style's row
// says.
#pragma once

#include "model/blocks.h"
#include "model/workspace_cutter.h"

namespace tidepool {

// Scratch of a norm's backward, a part of the block's workspace.
struct NormScratch {
  float* mean = nullptr;      // [R]; layer norms only
  float* rstd = nullptr;      // [R]
  float* partials = nullptr;  // at least `partials_min` floats
};
NormScratch norm_scratch(const ModelGraph&, WorkspaceCutter&, u64 partials_min = 0);

struct NormWeights {
  Param weight, bias;  // [H]; bias: layer norms only
};
struct NormGradients {
  float *weight = nullptr, *bias = nullptr;  // null if frozen
};

// y = norm(x), or residual + norm(x)
struct NormCall {
  u32 rows = 0;
  ConstValues x;          // [rows, H]
  ConstValues residual;   // [rows, H], or none; RMS norms only
  Values y;               // [rows, H]
  float* mean = nullptr;  // [rows], as rstd: for backward, or null
  float* rstd = nullptr;
};
void norm_forward(const BlockContext&, const NormWeights&, const NormCall&);

struct NormBackwardCall {
  ConstValues x, dy;           // [R, H]
  Values dx;                   // [R, H]
  bool add_to_dx = false;      // true: dx += the gradient, as for the residual stream
  bool accumulate = true;      // false: the gradients of the weights are overwritten
  const NormScratch& moments;  // moments of x, from norm_forward
};
void norm_backward(const BlockContext&, const NormWeights&, const NormGradients&, const NormBackwardCall&);

}  // namespace tidepool
