// slot_range() says where the elements of a window's tensors lie in a slot.
#pragma once

#include <vector>

#include "tidepool/model_graph.h"

namespace tidepool {

// True for shapes that have rows and columns.
inline bool is_matrix(const std::vector<u64>& shape) { return shape.size() == 2; }

// RETURNS: how many elements a slot has for a tensor. `rows` and `columns`: of a matrix; 0: it is none.
constexpr u64 slot_elements(SlotAxis axis, u64 elements, u64 rows, u64 columns) {
  switch (axis) {
    case SlotAxis::elements:
      return elements;
    case SlotAxis::rows:
      return rows;
    case SlotAxis::columns:
      return rows > 0 ? columns : elements;
  }
  return 0;
}
inline u64 slot_elements(SlotAxis axis, const Tensor& tensor) {
  const bool matrix = is_matrix(tensor.shape);
  return slot_elements(axis, tensor.elements, matrix ? tensor.shape[0] : 0, matrix ? tensor.shape[1] : 0);
}

struct SlotRange {
  u64 begin = 0, elements = 0;

  u64 end() const { return begin + elements; }
};

// RETURNS: the part of a slot that belongs to elements [begin, end) of the window. Along the elements it is
// the same range. Along another axis all of the window's tensors follow each other without gaps, whatever
// their rules, and those that begin in [begin, end) count.
SlotRange slot_range(const Window&, SlotAxis, u64 begin, u64 end);
inline SlotRange slot_range(const Window& window, SlotAxis axis, const Tensor& tensor) {
  return slot_range(window, axis, tensor.window_offset, tensor.window_offset + tensor.elements);
}

}  // namespace tidepool
