// One head of one sequence inside [B, T, 3H] and [B, T, H] buffers.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention/attention.h"

namespace tidepool {

// `head` counts over all sequences: sequence * NH + head of it.
struct HeadView {
  AttentionShape shape;
  u32 head = 0;

  u32 qkv_stride() const { return 3 * shape.hidden(); }
  u32 out_stride() const { return shape.hidden(); }
  u64 first_row() const { return u64{head / shape.heads} * shape.tokens; }
  u64 column() const { return u64{head % shape.heads} * shape.head_size; }
  u64 q(u32 row) const { return (first_row() + row) * qkv_stride() + column(); }
  u64 k(u32 row) const { return q(row) + shape.hidden(); }
  u64 v(u32 row) const { return q(row) + u64{2} * shape.hidden(); }
  u64 out(u32 row) const { return (first_row() + row) * out_stride() + column(); }
  u64 lse(u32 row) const { return u64{head} * shape.tokens + row; }
  u64 dropout(u32 row, u32 key) const { return lse(row) * shape.tokens + key; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }
};

// Rows [query, query + rows) against keys [key, key + width).
struct ScoreBlock {
  u32 query = 0, rows = 0, key = 0, width = 0;

  // Keys that row `row` of the block may see. At least one: keys start at or before the query block.
  u32 visible(u32 row) const { return std::min(query + row + 1 - key, width); }
};

static_assert(attention_key_rows % attention_query_rows == 0);

// Visits the score blocks of the query block that starts at `query`, keys ascending.
template <class Fn>
void for_score_blocks(u32 tokens, u32 query, Fn fn) {
  const u32 rows = std::min(attention_query_rows, tokens - query);
  for (u32 key = 0; key < query + rows; key += attention_key_rows) {
    fn(ScoreBlock{query, rows, key, std::min(attention_key_rows, query + rows - key)});
  }
}

}  // namespace tidepool
