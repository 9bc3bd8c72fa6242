// Matrix products of a range of experts, each with the rows that chose it, in one operation.
//
// An expert's tiles depend on its own count of rows alone, so neither the other experts of the range nor
// their number changes a bit of its results.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Rows of expert e: y = scale x w_e + b_e. Row-major. Rows from offsets[experts] on are not touched. Strides
// are elements from row to row; 0: packed. Only the CPU has strides.
struct GroupedMatmul {
  const i32* offsets = nullptr;    // [experts + 1] first row of each expert, then the true count
  u32 experts = 0;                 // in the range
  u32 rows_max = 0, n = 0, k = 0;  // M, N, K
  u32 expected_rows = 0;           // for costs
  ConstValues x;                   // [M, K]
  u32 x_stride = 0;
  Param weight;           // of the first expert: [K, N], or [N, K] if transposed
  u64 expert_stride = 0;  // elements from expert to expert, of weights and of biases
  bool transposed = false;
  Param bias;  // of the first expert: [N], or none
  float scale = 1;
  bool accumulate = false;  // y += scale x w; no bias then
  Values y;                 // [M, N]
  u32 y_stride = 0;

  u32 row_of_x() const { return x_stride != 0 ? x_stride : k; }
  u32 row_of_y() const { return y_stride != 0 ? y_stride : n; }
};
void grouped_matmul_cpu(const GroupedMatmul&, CorePool&);

// dw_e = x^T dy over the rows of expert e, or its transpose; dbias_e = sums of the rows of dy, each times its
// slot's factor. An expert without rows gets zeros, or keeps its gradient if accumulating. A micro-batch's
// product is computed separately and then added, as in WeightGradient.
struct GroupedWeightGradient {
  const i32* offsets = nullptr;         // [experts + 1]
  u32 experts = 0;                      // in the range
  u32 rows_max = 0, n = 0, k = 0;       // M, N, K
  u32 expected_rows = 0;                // for costs
  ConstValues x;                        // [M, K]
  ConstValues dy;                       // [M, N]
  u32 dy_stride = 0;                    // elements from row to row; 0: packed. No dbias then
  float* dw = nullptr;                  // of the first expert: [K, N], or [N, K] if transposed
  u64 expert_stride = 0;                // elements from expert to expert, of dw and of dbias
  float* dbias = nullptr;               // of the first expert: [N], or null
  const float* bias_factors = nullptr;  // [R, k] by slot, or null: 1
  const i32* slots = nullptr;           // [M], with bias_factors only
  bool accumulate = true;               // false: overwrite
  bool transposed = false;              // dw = dy^T x

  u32 row_of_dy() const { return dy_stride != 0 ? dy_stride : n; }
};
void grouped_weight_gradient_cpu(const GroupedWeightGradient&, CorePool&);

}  // namespace tidepool
