#include "tidepool/slot_range.h"

namespace tidepool {

SlotRange slot_range(const Window& window, SlotAxis axis, u64 begin, u64 end) {
  if (axis == SlotAxis::elements) return {begin, end - begin};
  SlotRange range;
  for (const Tensor& tensor : window.tensors) {
    const u64 elements = slot_elements(axis, tensor);
    if (tensor.window_offset < begin)
      range.begin += elements;
    else if (tensor.window_offset < end)
      range.elements += elements;
  }
  return range;
}

}  // namespace tidepool
