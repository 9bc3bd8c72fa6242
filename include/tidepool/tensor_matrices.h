// matrices_of() finds the matrices of a tensor, for rules of updates that work on whole matrices.
#pragma once

#include <vector>

#include "tidepool/model_graph.h"

namespace tidepool {

// Matrix [rows, columns] within an array. Element (r, c) is at begin + r * row_step + c * column_step.
struct MatrixPlace {
  u64 begin = 0;
  u32 rows = 0, columns = 0;
  u64 row_step = 0, column_step = 1;
  bool in_out = false;  // rows are inputs

  u32 outputs() const { return in_out ? columns : rows; }
  u32 inputs() const { return in_out ? rows : columns; }
  u64 elements() const { return u64{rows} * columns; }
  bool operator==(const MatrixPlace&) const = default;
};

// RETURNS: the matrices that the tensor joins, such as q, k and v; or the tensor itself. Rows and columns are
// those of the tensor's shape. `begin` counts from the window's start.
// REQUIRES: the tensor has two dimensions.
std::vector<MatrixPlace> matrices_of(const Tensor&);

// RETURNS: the matrices of all tensors that lie in [begin, end) of the window; `begin` counts from there.
std::vector<MatrixPlace> matrices_between(const Window&, u64 begin, u64 end);

// RETURNS: the number of the matrix's shape in graph.matrix_costs.
// REQUIRES: a streamed rule updates it.
u32 shape_of(const ModelGraph&, const MatrixPlace&);

}  // namespace tidepool
