// Activations of MLPs without a gate, row by row: matrix products call these functions on each tile while it
// is in cache.
//   GELU in its tanh form, "gelu_new" (Hendrycks and Gimpel, arXiv:1606.08415). 0.5 (1 + tanh u) is the
//   logistic of 2u, which needs one exp and keeps its relative precision in the left tail.
//   relu^2, "relu2" (So et al., arXiv:2109.08668): x^2 above 0, otherwise 0.
#pragma once

#include "base/types.h"

namespace tidepool {

// y = gelu(x). y may be x.
void gelu_row(const float* x, float* y, u64 n);
// y = relu(x)^2. y may be x.
void squared_relu_row(const float* x, float* y, u64 n);

// dx = dy gelu'(x). If `value` is not null, value = gelu(x), which costs next to nothing here and makes
// saving it unnecessary. `value` or `dx` may be x.
void gelu_backward_row(const float* x, const float* dy, float* dx, float* value, u64 n);
// dx = 2 dy relu(x), and value = relu(x)^2, in the same way.
void squared_relu_backward_row(const float* x, const float* dy, float* dx, float* value, u64 n);

}  // namespace tidepool
