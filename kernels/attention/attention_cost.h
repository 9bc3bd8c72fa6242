#pragma once

#include "kernels/attention/attention.h"
#include "kernels/cost.h"

namespace tidepool {

// Query-key pairs computed: the causal half, and half a query block above the diagonal.
constexpr u64 attention_pairs(const AttentionShape& s) {
  return u64{s.sequences} * s.heads * s.tokens * (u64{s.tokens} + attention_query_rows) / 2;
}
constexpr u64 attention_row_bytes(const AttentionShape& s) {
  return u64{4} * s.sequences * s.tokens * s.heads * s.head_size;
}

// Two products of D per pair, and about 12 operations for the softmax.
constexpr Cost attention_cost(const AttentionShape& s) {
  return {.flops = attention_pairs(s) * (4 * u64{s.head_size} + 12), .bytes = 4 * attention_row_bytes(s)};
}
// Five products.
constexpr Cost attention_backward_cost(const AttentionShape& s) {
  return {.flops = attention_pairs(s) * (10 * u64{s.head_size} + 16), .bytes = 8 * attention_row_bytes(s)};
}

}  // namespace tidepool
