// WorkspaceCutter cuts a frame into buffers. The same code computes sizes when a step is planned and
// addresses when a block runs, so the two cannot differ.
#pragma once

#include "kernels/values.h"

namespace tidepool {

// Hands out pieces of a frame in order. With a null base it only counts bytes.
class WorkspaceCutter {
 public:
  explicit WorkspaceCutter(std::byte* base) : base_(base) {}

  template <class T>
  T* take(u64 count) {
    auto* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += round_up(count * sizeof(T), 64);
    return piece;
  }
  Values take_values(Precision precision, u64 elements) {
    return {take<std::byte>(values_bytes(elements, precision)), precision};
  }
  u64 used() const { return used_; }  // bytes so far
  Bytes bytes() const { return {round_up(used_, frame_alignment)}; }

 private:
  std::byte* base_;
  u64 used_ = 0;
};

}  // namespace tidepool
