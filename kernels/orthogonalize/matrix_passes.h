// Passes over a matrix between the products of orthogonalize(). Numbers of fp32 arrays are rounded to those
// of bf16.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"
#include "tidepool/tensor_matrices.h"

namespace tidepool {

// Limit of partial sums of a matrix's norm.
inline constexpr u32 matrix_partials_max = 1024;

// to = from / max(|from|, epsilon); the norm is Frobenius's, of the rounded numbers, and itself rounded to
// bf16.
struct NormalizeMatrix {
  MatrixPlace matrix;
  ConstValues from;  // array with the matrix
  Values to;         // [rows, columns], packed
  float epsilon = 1e-7f;
  double* partials = nullptr;  // [matrix_partials_max + 1] scratch
};
void normalize_matrix_cpu(const NormalizeMatrix&, CorePool&);

// y = of_x x + of_product product; y may be x.
struct AddProduct {
  float of_x = 0, of_product = 1;
  ConstValues x;  // [elements], or none
  const float* product = nullptr;
  Values y;
  u64 elements = 0;
};
void add_product_cpu(const AddProduct&, CorePool&);

// to = scale from
struct ScaleMatrix {
  MatrixPlace matrix;
  ConstValues from;  // [rows, columns], packed
  Values to;         // array with the matrix; fp32 is not rounded
  float scale = 1;
};
void scale_matrix_cpu(const ScaleMatrix&, CorePool&);

}  // namespace tidepool
