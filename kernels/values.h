// Values is a dense array as kernels see it: parameters inside a window, activations, their gradients.
#pragma once

#include <cstddef>
#include <type_traits>

#include "tidepool/chunk.h"

namespace tidepool {

// Stops the process. Not a CHECK: nvcc reads this header, and cannot parse CHECK's printing code.
[[noreturn]] void wrong_precision(Precision is, Precision wanted);

// fp32, bf16 (the upper half of an fp32, as u16), or fp16 (IEEE half precision, as u16). A backend that
// accepts only one of them for an argument CHECKs that.
template <bool writable>
struct BasicValues {
  using Byte = std::conditional_t<writable, std::byte, const std::byte>;
  using Float = std::conditional_t<writable, float, const float>;
  using Half = std::conditional_t<writable, u16, const u16>;

  Byte* data = nullptr;
  Precision precision = Precision::fp32;

  constexpr BasicValues() = default;
  constexpr BasicValues(std::nullptr_t) {}
  constexpr BasicValues(Byte* bytes, Precision p) : data(bytes), precision(p) {}
  // A float pointer implies fp32.
  BasicValues(Float* values) : data(reinterpret_cast<Byte*>(values)) {}
  // Converts a writable array to a read-only array.
  template <bool other_writable>
  requires(other_writable && !writable) constexpr BasicValues(const BasicValues<other_writable>& other)
      : data(other.data), precision(other.precision) {}

  explicit operator bool() const { return data != nullptr; }
  BasicValues at(u64 element) const {
    return {data == nullptr ? nullptr : data + element * values_bytes(1, precision), precision};
  }
  // Null stays null.
  Float* fp32() const {
    if (data != nullptr && precision != Precision::fp32) wrong_precision(precision, Precision::fp32);
    return reinterpret_cast<Float*>(data);
  }
  Half* bf16() const {
    if (data != nullptr && precision != Precision::bf16) wrong_precision(precision, Precision::bf16);
    return reinterpret_cast<Half*>(data);
  }
  bool operator==(const BasicValues&) const = default;
};
using Values = BasicValues<true>;
using ConstValues = BasicValues<false>;

// A tensor of parameters.
using Param = ConstValues;

}  // namespace tidepool
