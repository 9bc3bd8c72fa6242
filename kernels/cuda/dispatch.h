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

}  // namespace tidepool::cuda
