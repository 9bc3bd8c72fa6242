// Soft caps: y = cap tanh(x / cap) keeps a score or a logit within (-cap, cap), and changes little near 0.
#pragma once

#include "kernels/values.h"

namespace tidepool {

// x = cap tanh(x / cap), in place. An element's bits do not depend on its place in the row.
void soft_cap_row(float* x, float cap, u64 n);

// Caps logits for sampling. The loss caps its logits within its own kernels (kernels/cross_entropy).
struct SoftCap {
  u64 elements = 0;
  float cap = 0;  // above 0
  float* x = nullptr;
};
void soft_cap_cpu(const SoftCap&);

}  // namespace tidepool
