// Forward and backward ops: from operands to calls of block code, on whichever device the kernels work.
#pragma once

#include "engine/executor.h"
#include "executor/shared/arenas.h"
#include "executor/shared/step_source.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Windows that one block reads: embedding {wte, wpe}, layer {h.i}, head {ln_f, wte}.
inline constexpr u32 block_windows_max = 4;

struct BlockOpParts {
  const Plan& plan;
  const ModelGraph& graph;
  const TierMemory& memory;
  u64 seed = 0;  // of dropout
};

// What the head's forward leaves besides. Pointers are to memory that the kernels reach.
struct ForwardHead {
  double* loss_sum = nullptr;
  float* logits = nullptr;  // [V] of row logits_row, or null
  u32 logits_row = 0;
};
// REQUIRES: of the head only evaluation's; in training its backward does its forward.
void run_forward(const BlockOpParts&, Kernels&, const Issue&, const ForwardHead&);

struct BackwardHead {
  double* loss_sum = nullptr;
  double inverse_tokens = 1.0;
  const float* loss_scale = nullptr;
};
BackwardHead backward_head(const StepSource&, u64 step, double* loss_sum, const float* loss_scale);
void run_backward(const BlockOpParts&, Kernels&, const Issue&, const BackwardHead&);

}  // namespace tidepool
