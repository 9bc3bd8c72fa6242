#include "kernels/orthogonalize/orthogonalize.h"

#include <algorithm>

namespace tidepool {
namespace {

// Coefficients of a step. They lift small singular values fast, and leave those near 1 between 0.7 and 1.2.
constexpr float of_x = 3.4445f, of_gram = -4.7750f, of_square = 2.0315f;

// Places in the workspace.
struct Parts {
  u64 gram, polynomial, product, end;

  Parts(const MatrixPlace& matrix, Precision products) {
    constexpr u64 alignment = 256;
    const u64 inner = std::min(matrix.rows, matrix.columns), all = matrix.elements();
    gram = round_up(values_bytes(all, products), alignment);
    polynomial = gram + round_up(values_bytes(inner * inner, products), alignment);
    product = polynomial + round_up(values_bytes(inner * inner, products), alignment);
    const u64 partials = (matrix_partials_max + 1) * sizeof(double);
    end = product + round_up(std::max(all * sizeof(float), partials), alignment);
  }
};

}  // namespace

Bytes orthogonalize_workspace(const MatrixPlace& matrix, Precision products) {
  return Bytes{Parts(matrix, products).end};
}

void orthogonalize(Kernels& kernels, const Orthogonalize& op) {
  const u32 rows = op.matrix.rows, columns = op.matrix.columns, inner = std::min(rows, columns);
  const Parts parts(op.matrix, op.products);
  const auto at = [&](u64 offset) { return Values(op.workspace + offset, op.products); };
  const Values x = at(0), gram = at(parts.gram), polynomial = at(parts.polynomial);
  float* const product = reinterpret_cast<float*>(op.workspace + parts.product);
  const bool tall = rows > columns;
  kernels.normalize_matrix({.matrix = op.matrix,
                            .from = op.values,
                            .to = x,
                            .partials = reinterpret_cast<double*>(op.workspace + parts.product)});
  const u64 squares = u64{inner} * inner;
  for (u32 step = 0; step < op.steps; ++step) {
    if (tall)
      kernels.weight_gradient(
          {.m = rows, .n = inner, .k = inner, .x = x, .dy = x, .dw = product, .accumulate = false});
    else
      kernels.matmul(
          {.m = inner, .n = inner, .k = columns, .x = x, .weight = x, .transposed = true, .y = product});
    kernels.add_product({.product = product, .y = gram, .elements = squares});
    kernels.matmul({.m = inner, .n = inner, .k = inner, .x = gram, .weight = gram, .y = product});
    kernels.add_product({.of_x = of_gram,
                         .of_product = of_square,
                         .x = gram,
                         .product = product,
                         .y = polynomial,
                         .elements = squares});
    kernels.matmul({.m = rows,
                    .n = columns,
                    .k = inner,
                    .x = tall ? x : polynomial,
                    .weight = tall ? polynomial : x,
                    .y = product});
    kernels.add_product({.of_x = of_x, .x = x, .product = product, .y = x, .elements = op.matrix.elements()});
  }
  kernels.scale_matrix({.matrix = op.matrix, .from = x, .to = op.values, .scale = op.scale});
}

}  // namespace tidepool
