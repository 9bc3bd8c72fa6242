// attention_cost() counts the work of causal attention, forward and backward.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/soft_cap/soft_cap_cost.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// Query-key pairs computed: the causal half, and half a query block above the diagonal. With a window, the
// first W tokens see half of W, the others all of it and half a query block at either end.
constexpr u64 attention_pairs(const AttentionShape& s) {
  const u64 heads = u64{s.sequences} * s.heads;
  if (s.window == 0 || s.window >= s.tokens)
    return heads * s.tokens * (u64{s.tokens} + attention_query_rows) / 2;
  const u64 first = u64{s.window} * (u64{s.window} + attention_query_rows) / 2;
  return heads * (first + u64{s.tokens - s.window} * (u64{s.window} + attention_query_rows));
}
// A tile's operations: those of all tokens up to its end, less those of the tokens before it.
inline u64 attention_pairs(AttentionShape s, const AttentionTile& tile) {
  if (!tile.past) return attention_pairs(s);
  const u32 end = tile.first + s.tokens;
  s.tokens = tile.first;
  const u64 before = attention_pairs(s);
  s.tokens = end;
  return attention_pairs(s) - before;
}
// Elements of qkv and out.
constexpr u64 attention_elements(const AttentionShape& s) {
  return u64{s.sequences} * s.tokens * (u64{s.qkv_columns()} + s.out_columns());
}

// Operations per pair for a soft cap.
constexpr u64 attention_cap_flops(const AttentionShape& s) { return s.cap != 0 ? tanh_flops : 0; }

// Products of 2 D and 2 V flops per pair, and about 12 operations for the softmax.
inline KernelCost attention_cost(const AttentionShape& s, const AttentionTile& tile = {}) {
  const u64 pairs = attention_pairs(s, tile);
  return {.product_flops = pairs * 2 * (s.head_size + s.value_head_size()),
          .vector_flops = pairs * (12 + attention_cap_flops(s)),
          .elements = attention_elements(s)};
}
// Three products of 2 D flops per pair, two of 2 V.
inline KernelCost attention_backward_cost(const AttentionShape& s, const AttentionTile& tile = {}) {
  const u64 pairs = attention_pairs(s, tile);
  return {.product_flops = pairs * (6 * s.head_size + 4 * s.value_head_size()),
          .vector_flops = pairs * (16 + attention_cap_flops(s)),
          .elements = 2 * attention_elements(s)};
}

}  // namespace tidepool
