// Costs of the gated delta rule's steps.
#pragma once

#include "kernels/delta_rule/delta_rule.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// Reads and writes the channels once; two operations a tap, and about ten for the SiLU.
constexpr KernelCost delta_convolution_cost(const DeltaShape& s) {
  const u64 elements = u64{s.rows()} * s.channels();
  return {.vector_flops = elements * (2 * s.taps + 10), .elements = 2 * elements};
}
// Computes the sums again, and goes back to the inputs and to the weights.
constexpr KernelCost delta_convolution_backward_cost(const DeltaShape& s) {
  const u64 elements = u64{s.rows()} * s.channels();
  return {.vector_flops = elements * (6 * s.taps + 12), .elements = 3 * elements};
}

// Products of rows of a chunk with each other, and with the state: `of_state` and `of_keys`, `of_values`
// count them per token and value head, 2 flops a term.
constexpr KernelCost delta_products(const DeltaShape& s, u64 of_state, u64 of_keys, u64 of_values) {
  const u64 rows = u64{s.rows()} * s.value_heads, chunk = delta_chunk_tokens;
  return {.product_flops = rows * (of_state * s.key_size * s.value_size +
                                   chunk * (of_keys * s.key_size + of_values * s.value_size)),
          .fp32_products = true,
          .vector_flops = rows * (10 * chunk + 4 * (u64{s.key_size} + s.value_size))};
}
// K S, Q S and the state's change; K K^T and Q K^T; the solution, of half a product, and P W. Mamba-2 has
// neither K S nor K K^T nor a solution.
constexpr KernelCost gated_delta_cost(const DeltaShape& s) {
  KernelCost cost = s.corrects() ? delta_products(s, 6, 4, 3) : delta_products(s, 4, 2, 2);
  cost.elements = u64{s.rows()} * (s.channels() + s.value_columns());
  return cost;
}
// The states again, the chunks again, and the gradients.
constexpr KernelCost gated_delta_backward_cost(const DeltaShape& s) {
  KernelCost cost = s.corrects() ? delta_products(s, 20, 16, 9) : delta_products(s, 12, 8, 4);
  cost.elements = u64{s.rows()} * (3 * u64{s.channels()} + s.value_columns());
  return cost;
}

// A GPU reads the inputs twice: for the sums, and for the results.
constexpr KernelCost group_norm_cost(const DeltaShape& s) {
  const u64 elements = u64{s.rows()} * s.value_columns();
  return {.vector_flops = 24 * elements, .elements = 5 * elements};
}
constexpr KernelCost group_norm_backward_cost(const DeltaShape& s) {
  const u64 elements = u64{s.rows()} * s.value_columns();
  return {.vector_flops = 50 * elements, .elements = 8 * elements};
}

constexpr KernelCost gated_norm_cost(const DeltaShape& s) {
  const u64 elements = u64{s.rows()} * s.value_columns();
  return {.vector_flops = 14 * elements, .elements = 3 * elements};
}
constexpr KernelCost gated_norm_backward_cost(const DeltaShape& s) {
  const u64 elements = u64{s.rows()} * s.value_columns();
  return {.vector_flops = 40 * elements, .elements = 5 * elements};
}

}  // namespace tidepool
