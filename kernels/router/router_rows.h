// Operations on one token's logits that the router's forward and backward share.
#pragma once

#include "kernels/router/router.h"

namespace tidepool {

// p = softmax(logits) over all n; p may be logits. RETURNS: logsumexp(logits).
float router_softmax(const float* logits, u32 n, float* p);

// s = 1 / (1 + e^-x), and 1 - s without cancellation.
struct Logistic {
  float open, closed;
};
Logistic logistic(float x);

// Softmax over a token's chosen logits: q[j], in order of j. q: [k].
void chosen_softmax(const float* logits, const i32* experts, u32 chosen, float* q);

// Writes the rule's best experts, best first, ties to the lower index. `scores`: [E], of which NaN is the
// lowest. `keys`: scratch, [3 E].
// RETURNS: false if a score is NaN.
bool choose_experts(const RouterRule&, const float* scores, u32* keys, i32* experts);

}  // namespace tidepool
