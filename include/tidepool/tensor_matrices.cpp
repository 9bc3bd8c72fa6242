#include "tidepool/tensor_matrices.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {

std::vector<MatrixPlace> matrices_of(const Tensor& tensor) {
  CHECK(tensor.shape.size() == 2, tensor.name, tensor.shape.size());
  const u64 rows = tensor.shape[0], columns = tensor.shape[1];
  const MatrixPlace whole = {.begin = tensor.window_offset,
                             .rows = static_cast<u32>(rows),
                             .columns = static_cast<u32>(columns),
                             .row_step = columns,
                             .in_out = tensor.in_out};
  std::vector<MatrixPlace> out;
  const u64 joined = tensor.joined.size();
  u64 first = 0;  // output at which the next matrix begins
  for (u64 i = 0; i < joined; ++i) {
    const u64 outputs = tensor.joined[i];
    MatrixPlace part = whole;
    if (tensor.interleaved) {
      part.begin += i, part.columns = static_cast<u32>(outputs), part.column_step = joined;
    } else if (tensor.in_out) {
      part.begin += first, part.columns = static_cast<u32>(outputs);
    } else {
      part.begin += first * columns, part.rows = static_cast<u32>(outputs);
    }
    first += outputs;
    out.push_back(part);
  }
  if (joined == 0) return {whole};
  CHECK(first == (tensor.in_out ? columns : rows), tensor.name, first);
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
  for (const Tensor& tensor : window.tensors) {
    if (tensor.window_offset < begin || tensor.window_offset >= end) continue;
    for (MatrixPlace matrix : matrices_of(tensor)) {
      matrix.begin -= begin;
      out.push_back(matrix);
    }
  }
  return out;
}

}  // namespace tidepool
