// GELU in its tanh form, "gelu_new" (Hendrycks and Gimpel, arXiv:1606.08415), row by row: matrix products
// call these functions on each tile while it is in cache. 0.5 (1 + tanh u) is the logistic of 2u, which needs
// one exp and keeps its relative precision in the left tail.
#pragma once

#include "base/types.h"

namespace tidepool {

// y = gelu(x). y may be x.
void gelu_row(const float* x, float* y, u64 n);

// dx = dy gelu'(x). If `value` is not null, value = gelu(x), which costs next to nothing here and makes
// saving it unnecessary. `value` or `dx` may be x.
void gelu_backward_row(const float* x, const float* dy, float* dx, float* value, u64 n);

}  // namespace tidepool
