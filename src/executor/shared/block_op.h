// Runs forward and backward ops: turns operands into calls of block code, on any device that the kernels use.
#pragma once

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"
#include "executor/shared/step_source.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Limit of windows that one block reads: embedding {wte, wpe}, layer {h.i}, head {ln_f, wte}.
inline constexpr u32 block_windows_max = 4;

struct BlockOpParts {
  const Plan& plan;
  const ModelGraph& graph;
  const TierMemory& memory;
  u64 seed = 0;  // seed of dropout
};

// Extra outputs of the head's forward. Pointers are to memory that the kernels can access.
struct ForwardHead {
  double* loss_sum = nullptr;
  float* logits = nullptr;  // [V] of row logits_row, or null
  u32 logits_row = 0;
};
// REQUIRES: if the block is the head, an evaluation; in training the head's backward includes its forward.
void run_forward(const BlockOpParts&, Kernels&, const Issue&, const ForwardHead&);

struct BackwardHead {
  double* loss_sum = nullptr;
  double inverse_tokens = 1.0;
  // Also of an attention block, which has a router:
  const float* loss_scale = nullptr;
  u32 micro_batches = 1;  // filled_micro_batches()
  // Models with experts.
  RouterLosses* router_losses = nullptr;
  i64* expert_tokens = nullptr;
};
BackwardHead backward_head(const StepSource&, u64 step, double* loss_sum, const float* loss_scale);
void run_backward(const BlockOpParts&, Kernels&, const Issue&, const BackwardHead&);

}  // namespace tidepool
