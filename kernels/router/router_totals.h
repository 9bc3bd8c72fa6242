// RouterTotals adds the routers' losses and counts of one micro-batch to those of a step.
#pragma once

#include "kernels/router/router.h"

namespace tidepool {

// Sums over the micro-batches of a step so far.
struct RouterLosses {
  double balance = 0;  // E sum_e F[e] P[e]
  double z = 0;        // mean of logsumexp(logits)^2
  double entropy = 0;  // mean entropy of the softmax over all E, in nats
};

// Means are over the tokens of all layers, N as in router.h; without any, losses stay as they are.
struct RouterTotals {
  u32 chosen = 0, layers = 0, experts = 0;  // k, L, E
  RouterSums sums;                          // of the first layer; each array goes on with the other layers
  RouterLosses* losses = nullptr;           // added to
  i64* tokens = nullptr;                    // [L, E] tokens that chose the expert, added to
};
void router_totals_cpu(const RouterTotals&);

}  // namespace tidepool
