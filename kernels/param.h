// Parameter tensors as kernels see them.
#pragma once

#include "tidepool/chunk.h"

namespace tidepool {

// A tensor where it lies in a window: fp32, or bf16 (the upper half of an fp32, as u16).
struct Param {
  const std::byte* data = nullptr;
  Precision precision = Precision::fp32;

  explicit operator bool() const { return data != nullptr; }
  Param at(u64 element) const {
    return {data == nullptr ? nullptr : data + element * element_bytes(Kind::param, precision), precision};
  }
};

}  // namespace tidepool
