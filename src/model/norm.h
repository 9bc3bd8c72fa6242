// Norms of the residual stream, a part of every layer and of the head: layer norms or RMS norms, as the
// style's row says.
#pragma once

#include "model/blocks.h"
#include "model/workspace_cutter.h"

namespace tidepool {

// Backward's share of a workspace.
struct NormScratch {
  float* mean = nullptr;      // [R]; of layer norms
  float* rstd = nullptr;      // [R]
  float* partials = nullptr;  // at least `partials_min` floats
};
NormScratch norm_scratch(const ModelGraph&, WorkspaceCutter&, u64 partials_min = 0);

struct NormWeights {
  Param weight, bias;  // [H]; bias: of layer norms
};
struct NormGradients {
  float *weight = nullptr, *bias = nullptr;  // null where they are not trained
};

// y = norm(x), or residual + norm(x)
struct NormCall {
  u32 rows = 0;
  ConstValues x;          // [rows, H]
  ConstValues residual;   // [rows, H], or none; of RMS norms
  Values y;               // [rows, H]
  float* mean = nullptr;  // [rows], as rstd: for backward, or null
  float* rstd = nullptr;
};
void norm_forward(const BlockContext&, const NormWeights&, const NormCall&);

struct NormBackwardCall {
  ConstValues x, dy;           // [R, H]
  Values dx;                   // [R, H]
  bool add_to_dx = false;      // a residual stream's gradient stays in place
  bool accumulate = true;      // of the weights' gradients
  const NormScratch& moments;  // of x
};
void norm_backward(const BlockContext&, const NormWeights&, const NormGradients&, const NormBackwardCall&);

}  // namespace tidepool
