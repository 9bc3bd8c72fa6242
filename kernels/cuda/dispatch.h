// From the precisions that an operation names to the types of a kernel; on the host.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/precisions.h"

namespace tidepool::cuda {

// fn(float{}) or fn(Bf16{}). Nest it for several arrays; `decltype` gives the type.
template <class Fn>
void for_precision(Precision precision, Fn fn) {
  if (precision == Precision::fp32) {
    fn(float{});
  } else {
    fn(Bf16{});
  }
}

// fn(std::true_type{}) or fn(std::false_type{}).
template <class Fn>
void for_bool(bool value, Fn fn) {
  if (value) {
    fn(std::true_type{});
  } else {
    fn(std::false_type{});
  }
}

// The array as elements of T. REQUIRES: T is what its precision says.
template <class T>
const T* elements(ConstValues v) {
  return reinterpret_cast<const T*>(v.data);
}
template <class T>
T* elements(Values v) {
  return reinterpret_cast<T*>(v.data);
}

// Whether rows of `columns` elements may be read and written in vectors of 8: load8<true>. Null counts as aligned.
template <class... Arrays>
bool rows_of_vectors(u64 columns, const Arrays&... arrays) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return columns % vector_elements == 0 && (aligned(ConstValues(arrays).data) && ...);
}

}  // namespace tidepool::cuda
