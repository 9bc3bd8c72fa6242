// The router's part of an attention block: choosing each token's experts, and the gradient of the choice's
// weights.
#pragma once

#include "model/block_layouts.h"
#include "model/blocks.h"

namespace tidepool {

// A part of the block's workspace.
struct RouterScratch {
  float* logits = nullptr;     // [R, E]
  double* partials = nullptr;  // forward only
  // [E], forward only: the correction of scores in fp32, in families that have one.
  float* correction = nullptr;
  // [R], in families whose shared experts have a gate; the gradient backward only.
  Values shared_gate, dshared_gate;
};
RouterScratch router_scratch(const ModelGraph&, WorkspaceCutter&, Direction);

struct RouterWeights {
  Param weight;                       // [E, H]
  Param bias;                         // [E], or none
  const float* correction = nullptr;  // [E], or null: added to scores when experts are chosen
  const Adapters& adapters;           // of the block
  FusedModules module;                // the router among the block's modules
};
struct RouterGradients {
  float *weight = nullptr, *bias = nullptr;  // null if frozen
  AdapterGradients adapters;
};

// Writes routes, and the layer's sums, from f.experts.normed.
void route(const BlockContext&, const RouterWeights&, const BlockForward&, const RouterScratch&);

// Adds the gradient of the router, and of its input to b.experts.normed_grad. `normed`: the experts' input,
// recomputed.
void route_backward(const BlockContext&, const RouterWeights&, const RouterGradients&, ConstValues normed,
                    const BlockBackward&, const RouterScratch&);

// Adds the micro-batch's losses and counts of all layers to the objective's numbers of them.
void add_router_totals(const BlockContext&, const BlockBackward&);

}  // namespace tidepool
