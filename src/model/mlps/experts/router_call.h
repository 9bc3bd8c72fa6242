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
  float* factors = nullptr;  // [E]: the same of factors on weights, also backward
  // [R, k], and how choices are sorted by expert: of the gradient of factors, backward only.
  float* dfactors = nullptr;
  u64* order = nullptr;
  Values normed;  // [R, H]: the router's input, if it has a norm of its own
  // [R], in families whose shared experts have a gate; the gradient backward only.
  Values shared_gate, dshared_gate;
};
RouterScratch router_scratch(const ModelGraph&, WorkspaceCutter&, Direction);

struct RouterWeights {
  Param weight;                       // [E, H]
  Param bias;                         // [E], or none
  const float* correction = nullptr;  // [E], or null: added to scores when experts are chosen
  const float* factors = nullptr;     // [E], or null: on the weights of an expert's tokens
  const Adapters& adapters;           // of the block
  FusedModules module;                // the router among the block's modules
};
struct RouterGradients {
  float *weight = nullptr, *bias = nullptr, *factors = nullptr;  // null if frozen
  AdapterGradients adapters;
};

// Writes routes, and the layer's sums. `x`: the router's input.
void route(const BlockContext&, const RouterWeights&, ConstValues x, const BlockForward&,
           const RouterScratch&);

// Gradients of the router, and of its input x, which are dx, or are added to it if `add`.
struct RouteBackward {
  ConstValues x;  // recomputed
  Values dx;
  bool add = false;
};
void route_backward(const BlockContext&, const RouterWeights&, const RouterGradients&, const RouteBackward&,
                    const BlockBackward&, const RouterScratch&);

// Adds the micro-batch's losses and counts of all layers to the objective's numbers of them.
void add_router_totals(const BlockContext&, const BlockBackward&);

}  // namespace tidepool
