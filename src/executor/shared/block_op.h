// Runs the ops of devices that call kernels: turns operands into calls of block code and of orthogonalize(),
// on any device that the kernels use.
#pragma once

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"
#include "executor/shared/step_source.h"
#include "kernels/kernels.h"
#include "model/blocks.h"
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

// REQUIRES: if the block is the head, an evaluation; in training the head's backward includes its forward.
void run_forward(const BlockOpParts&, Kernels&, const Issue&, const HeadForward&);

ObjectiveBackward head_backward(const StepSource&, u64 step, Sums*, const float* loss_scale);
void run_backward(const BlockOpParts&, Kernels&, const Issue&, const ObjectiveBackward&);

// Makes the past of a piece again, before the backward.
void run_recall(const BlockOpParts&, Kernels&, const Issue&);

// Orthogonalizes each matrix of a chunk set's direction.
void run_orthogonalize(const BlockOpParts&, Kernels&, const Issue&);

}  // namespace tidepool
