// Maps an operation's precisions to a kernel's types; on the host.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/precisions.h"
#include "kernels/cuda/require.h"

namespace tidepool::cuda {

// Calls fn(float{}), fn(Bf16{}) or fn(Fp16{}); `decltype` gives the type.
template <class Fn>
void for_precision(Precision precision, Fn fn) {
  switch (precision) {
    case Precision::fp32:
      return fn(float{});
    case Precision::bf16:
      return fn(Bf16{});
    case Precision::fp16:
      return fn(Fp16{});
  }
}

// For 16-bit precisions only: fn(Bf16{}) or fn(Fp16{}).
template <class Fn>
void for_half(Precision precision, Fn fn) {
  require(precision != Precision::fp32, "tensor cores take 16 bits");
  if (precision == Precision::bf16) {
    fn(Bf16{});
  } else {
    fn(Fp16{});
  }
}

// Calls fn(a, b) for the types of two kinds of arrays, such as activations and parameters. Kernels are not
// built for mixtures of bf16 and fp16, which no model has.
template <class Fn>
void for_precisions(Precision a, Precision b, Fn fn) {
  require(a == b || a == Precision::fp32 || b == Precision::fp32, "bf16 and fp16 do not mix");
  for_precision(a, [&](auto of_a) {
    for_precision(b, [&](auto of_b) {
      using A = decltype(of_a);
      using B = decltype(of_b);
      if constexpr (sizeof(A) == 4 || sizeof(B) == 4 || std::is_same_v<A, B>) fn(of_a, of_b);
    });
  });
}

// Calls fn(std::true_type{}) or fn(std::false_type{}).
template <class Fn>
void for_bool(bool value, Fn fn) {
  if (value) {
    fn(std::true_type{});
  } else {
    fn(std::false_type{});
  }
}

// RETURNS: the array as elements of T.
// REQUIRES: T is the type of the array's precision.
template <class T>
const T* elements(ConstValues v) {
  return reinterpret_cast<const T*>(v.data);
}
template <class T>
T* elements(Values v) {
  return reinterpret_cast<T*>(v.data);
}

}  // namespace tidepool::cuda
