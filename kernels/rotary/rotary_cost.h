// rotary_cost() counts the work of the rotary embedding and of its gradient.
#pragma once

#include "kernels/rotary/rotary.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// In place: q and k are read and written once. About 3 operations per rotated element, 5 more with a norm.
constexpr KernelCost rotary_cost(const RotaryShape& s, bool norms) {
  const u64 rotated = u64{s.rows} * (s.heads + s.kv_heads) * s.rotated();
  return {.vector_flops = (norms ? 8 : 3) * rotated, .elements = 2 * rotated};
}
// As rotary_cost(), for gradients; with norms the input is read as well.
constexpr KernelCost rotary_backward_cost(const RotaryShape& s, bool norms) {
  const u64 rotated = u64{s.rows} * (s.heads + s.kv_heads) * s.rotated();
  return {.vector_flops = (norms ? 16 : 3) * rotated, .elements = (norms ? 3 : 2) * rotated};
}

}  // namespace tidepool
