// Matrix products as fixed tiles: bits depend on shapes only.
#pragma once

#include "kernels/dropout/dropout.h"
#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Operation on a tile while it is in cache, after the product and the bias.
enum class Epilogue : u8 {
  none,
  gelu,           // y = gelu(xw + b); `pre`, if given, receives xw + b
  residual,       // y = residual + dropout(xw + b); y may be residual
  gelu_backward,  // y = xw * gelu'(pre_in); `value`, if given, receives gelu(pre_in). y may be pre_in
  squared_relu,   // as gelu, with relu^2
  squared_relu_backward,
};

// y = scale x w + bias + addend, then the epilogue. Row-major. Strides are elements from row to row; 0:
// packed.
struct Matmul {
  u32 m = 0, n = 0, k = 0;
  ConstValues x;  // [M, K]
  u32 x_stride = 0;
  Param weight;  // [K, N], or [N, K] if transposed
  bool transposed = false;
  Param bias;  // [N], or none
  float scale = 1;
  bool accumulate = false;  // y += scale x w; Epilogue::none and no bias only
  ConstValues addend;  // [M, N], or none; not with Epilogue::residual. May be y, or pre with activations,
                       // or value with their backward
  Epilogue epilogue = Epilogue::none;
  Values y;              // [M, N]
  u32 y_stride = 0;      // Epilogue::none only
  Values pre;            // [M, N]
  ConstValues residual;  // [M, N]
  ConstValues pre_in;    // [M, N]
  Values value;          // [M, N]
  Dropout dropout;

  u32 row_of_x() const { return x_stride != 0 ? x_stride : k; }
  u32 row_of_y() const { return y_stride != 0 ? y_stride : n; }
};
// Checks that the requested options are compatible.
void check_operands(const Matmul&);
void matmul_cpu(const Matmul&, CorePool&);

// dw = x^T dy, or its transpose; dbias = column sums of dy. The micro-batch's product is computed separately
// and then added, so that accumulating over micro-batches is a plain ordered sum.
struct WeightGradient {
  u32 m = 0, n = 0, k = 0;
  ConstValues x;            // [M, K]
  u32 x_stride = 0;         // elements from row to row; 0: packed
  ConstValues dy;           // [M, N]
  u32 dy_stride = 0;        // elements from row to row; 0: packed
  float* dw = nullptr;      // [K, N], or [N, K] if transposed
  float* dbias = nullptr;   // [N], or null
  bool accumulate = true;   // false: overwrite
  bool transposed = false;  // dw = dy^T x

  u32 row_of_x() const { return x_stride != 0 ? x_stride : k; }
  u32 row_of_dy() const { return dy_stride != 0 ? dy_stride : n; }
};
void weight_gradient_cpu(const WeightGradient&, CorePool&);

}  // namespace tidepool
