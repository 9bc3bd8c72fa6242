// Matrix products as fixed tiles: bits depend on shapes only.
#pragma once

#include "kernels/dropout/dropout.h"
#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// What happens to a tile while it is hot, after the product and the bias.
enum class Epilogue : u8 {
  none,
  gelu,           // y = gelu(xw + b); `pre`, if there, takes xw + b
  residual,       // y = residual + dropout(xw + b); y may be residual
  gelu_backward,  // y = xw * gelu'(pre_in); `value`, if there, takes gelu(pre_in). y may be pre_in
};

// y = x w + bias, then the epilogue. Row-major.
struct Matmul {
  u32 m = 0, n = 0, k = 0;
  ConstValues x;                    // [M, K]
  Param weight;                     // [K, N], or [N, K] if transposed
  bool transposed = false;
  Param bias;                       // [N], or none
  bool accumulate = false;          // y += x w; Epilogue::none and no bias only
  Epilogue epilogue = Epilogue::none;
  Values y;                         // [M, N]
  Values pre;                       // [M, N]
  ConstValues residual;             // [M, N]
  ConstValues pre_in;               // [M, N]
  Values value;                     // [M, N]
  Dropout dropout;
};
void matmul_cpu(const Matmul&, CorePool&);

// dw = x^T dy, or its transpose; dbias = column sums of dy. The micro-batch's product is made on its own and then
// added, so that accumulating over micro-batches is a plain ordered sum.
struct WeightGradient {
  u32 m = 0, n = 0, k = 0;
  ConstValues x;              // [M, K]
  ConstValues dy;             // [M, N]
  float* dw = nullptr;        // [K, N], or [N, K] if transposed
  float* dbias = nullptr;     // [N], or null
  bool accumulate = true;     // false: overwrite
  bool transposed = false;    // dw = dy^T x
};
void weight_gradient_cpu(const WeightGradient&, CorePool&);

}  // namespace tidepool
