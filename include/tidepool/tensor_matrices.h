// matrices_of() finds the matrices of a tensor, for rules of updates that work on whole matrices.
#pragma once

#include <vector>

#include "base/check.h"
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

// Calls fn(MatrixPlace) for the matrices that the tensor joins, such as q, k and v; or for the tensor itself.
// Rows and columns are those of the tensor's shape. `begin` counts from the window's start. Takes no memory.
// REQUIRES: the tensor has two dimensions.
template <class Fn>
void each_matrix(const Tensor& tensor, Fn&& fn) {
  CHECK(tensor.shape.size() == 2, tensor.name, tensor.shape.size());
  const u64 rows = tensor.shape[0], columns = tensor.shape[1];
  const MatrixPlace whole = {.begin = tensor.window_offset,
                             .rows = static_cast<u32>(rows),
                             .columns = static_cast<u32>(columns),
                             .row_step = columns,
                             .in_out = tensor.in_out};
  if (tensor.joined.empty()) return fn(whole);
  u64 first = 0;  // output at which the next matrix begins
  for (u64 i = 0; i < tensor.joined.size(); ++i) {
    const u64 outputs = tensor.joined[i];
    MatrixPlace part = whole;
    if (tensor.interleaved) {
      part.begin += i, part.columns = static_cast<u32>(outputs), part.column_step = tensor.joined.size();
    } else if (tensor.in_out) {
      part.begin += first, part.columns = static_cast<u32>(outputs);
    } else {
      part.begin += first * columns, part.rows = static_cast<u32>(outputs);
    }
    first += outputs;
    fn(part);
  }
  CHECK(first == (tensor.in_out ? columns : rows), tensor.name, first);
}

// The same for all tensors that lie in [begin, end) of the window; MatrixPlace::begin counts from there.
template <class Fn>
void each_matrix_between(const Window& window, u64 begin, u64 end, Fn&& fn) {
  for (const Tensor& tensor : window.tensors) {
    if (tensor.window_offset < begin || tensor.window_offset >= end) continue;
    each_matrix(tensor, [&](MatrixPlace matrix) {
      matrix.begin -= begin;
      fn(matrix);
    });
  }
}

// The same, as lists.
std::vector<MatrixPlace> matrices_of(const Tensor&);
std::vector<MatrixPlace> matrices_between(const Window&, u64 begin, u64 end);

// RETURNS: the number of the matrix's shape in graph.matrix_costs.
// REQUIRES: a streamed rule updates it.
u32 shape_of(const ModelGraph&, const MatrixPlace&);

}  // namespace tidepool
