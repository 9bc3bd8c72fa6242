// rotary_cost() counts the work of the rotary embedding and of its gradient.
#pragma once

#include "kernels/rotary/rotary.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// Elements of q and k that are computed: with norms those of whole heads, otherwise the rotated ones.
constexpr u64 rotary_elements(const RotaryShape& s, bool norms) {
  return u64{s.rows} * (s.heads + s.key_heads()) * (norms ? s.head_size : s.rotated());
}
// Elements that are copied because the input has other strides than the output, read and written: v, and
// without norms the part of q and k that is not rotated.
constexpr u64 rotary_copied(const RotaryShape& s, bool norms) {
  if (s.q_stride() == s.head_size) return 0;
  return 2 * (u64{s.rows} * s.columns() - rotary_elements(s, norms));
}
// Elements of v that are normalised.
constexpr u64 rotary_values(const RotaryShape& s) {
  return s.values == RotaryValues::copied || s.values == RotaryValues::given
             ? 0
             : u64{s.rows} * s.kv_heads * s.head_size;
}

// q and k are read and written once. About 3 operations per rotated element, 5 more per element with a norm.
constexpr KernelCost rotary_cost(const RotaryShape& s, bool norms) {
  const u64 elements = rotary_elements(s, norms);
  return {.vector_flops = 3 * rotary_elements(s, false) + (norms ? 5 * elements : 0) + 5 * rotary_values(s),
          .elements = 2 * elements + rotary_copied(s, norms) + 2 * rotary_values(s)};
}
// As rotary_cost(), for gradients; with norms the input is read as well.
constexpr KernelCost rotary_backward_cost(const RotaryShape& s, bool norms) {
  const u64 elements = rotary_elements(s, norms);
  return {.vector_flops = 3 * rotary_elements(s, false) + (norms ? 13 * elements : 0) + 13 * rotary_values(s),
          .elements = (norms ? 3 : 2) * elements + rotary_copied(s, norms) + 3 * rotary_values(s)};
}

}  // namespace tidepool
