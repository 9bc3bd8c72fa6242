#include "tidepool/tensor_matrices.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {

std::vector<MatrixPlace> matrices_of(const Tensor& tensor) {
  std::vector<MatrixPlace> out;
  each_matrix(tensor, [&](const MatrixPlace& matrix) { out.push_back(matrix); });
  return out;
}

u32 shape_of(const ModelGraph& graph, const MatrixPlace& matrix) {
  const auto at = std::ranges::find_if(graph.matrix_costs, [&](const MatrixCost& cost) {
    return cost.rows == matrix.rows && cost.columns == matrix.columns;
  });
  CHECK(at != graph.matrix_costs.end(), matrix.rows, matrix.columns);
  return static_cast<u32>(at - graph.matrix_costs.begin());
}

std::vector<MatrixPlace> matrices_between(const Window& window, u64 begin, u64 end) {
  std::vector<MatrixPlace> out;
  each_matrix_between(window, begin, end, [&](const MatrixPlace& matrix) { out.push_back(matrix); });
  return out;
}

}  // namespace tidepool
