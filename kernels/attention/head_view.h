// HeadView addresses one head of one sequence inside [B, T, (NH + NKV) D + NKV V] and [B, T, NH V] buffers.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/simd/rows.h"

namespace tidepool {

inline void check_attention_shape(const AttentionShape& s) {
  CHECK(s.head_size <= attention_head_size_max && s.value_head_size() <= attention_head_size_max, s.head_size,
        s.value_size);
  CHECK(s.key_heads() > 0 && s.heads % s.key_heads() == 0, s.heads, s.kv_heads);
}

// `head` counts over all sequences: sequence * NH + the head's number in its sequence.
struct HeadView {
  AttentionShape shape;
  u32 head = 0;

  u32 qkv_stride() const { return shape.qkv_columns(); }
  u32 out_stride() const { return shape.out_columns(); }
  u64 first_row() const { return u64{head / shape.heads} * shape.tokens; }
  u64 of_sequence() const { return head % shape.heads; }
  u64 kv_head() const { return of_sequence() / shape.group(); }
  u64 qkv(u32 row) const { return (first_row() + row) * qkv_stride(); }
  u64 q(u32 row) const { return qkv(row) + of_sequence() * shape.head_size; }
  u64 k(u32 row) const { return qkv(row) + shape.query_columns() + kv_head() * shape.head_size; }
  u64 v(u32 row) const {
    return qkv(row) + shape.query_columns() + shape.key_columns() + kv_head() * shape.value_head_size();
  }
  u64 out(u32 row) const {
    return (first_row() + row) * out_stride() + of_sequence() * shape.value_head_size();
  }
  u64 lse(u32 row) const { return u64{head} * shape.tokens + row; }
  u64 dropout(u32 row, u32 key) const { return lse(row) * shape.tokens + key; }
};

// `sinks`: [NH]
inline float sink_of(Param sinks, const HeadView& head) {
  float scratch;
  return *rows::widened(sinks.at(head.of_sequence()), 1, &scratch);
}

// The keys that each row of a sequence sees: from its first one to itself, but for its hole.
struct VisibleKeys {
  AttentionShape shape;
  const i32* starts = nullptr;     // [T], or null: 0 for all
  const KeyHole* holes = nullptr;  // [T], or null

  u32 of(u32 row) const {
    return shape.first_seen(row, starts == nullptr ? 0 : static_cast<u32>(starts[row]));
  }
  // RETURNS: the first key that rows [begin, end) see: that of `begin`, because first keys never decrease.
  u32 least(u32 begin, u32 end) const {
    for (u32 row = begin; row < end; ++row) {
      CHECK(of(row) <= row && of(row) >= of(begin), of(row), row, of(begin));
    }
    return of(begin);
  }
  KeyHole hole(u32 row) const { return holes == nullptr ? KeyHole{} : holes[row]; }
  // RETURNS: true if none of rows [begin, end) sees a key of [key, key + width).
  bool all_hidden(u32 begin, u32 end, u32 key, u32 width) const {
    if (holes == nullptr) return false;
    for (u32 row = begin; row < end; ++row)
      if (!hole(row).hides(key) || !hole(row).hides(key + width - 1)) return false;
    return true;
  }
};
// `op`: Attention or AttentionBackward.
template <class Op>
VisibleKeys visible_keys(const Op& op, const HeadView& head) {
  return {head.shape, op.starts == nullptr ? nullptr : op.starts + head.first_row(),
          op.holes == nullptr ? nullptr : op.holes + head.first_row()};
}

// Keys that a row of a block sees: [begin, end), perhaps none.
struct SeenKeys {
  u32 begin = 0, end = 0;
  u32 count() const { return end - begin; }
};

// Rows [query, query + rows) against keys [key, key + width).
struct ScoreBlock {
  VisibleKeys keys;
  u32 query = 0, rows = 0, key = 0, width = 0;
  bool first = false;  // first block of the query block

  // Without what a hole takes off the beginning or the end.
  SeenKeys seen(u32 row) const {
    u32 end = std::clamp(query + row + 1, key, key + width);  // a block may begin behind the row
    u32 begin = std::clamp(keys.of(query + row), key, end);
    const KeyHole hole = keys.hole(query + row);
    if (begin < end && hole.hides(end - 1)) end = std::max(begin, static_cast<u32>(hole.begin));
    if (begin < end && hole.hides(begin)) begin = std::min(end, static_cast<u32>(hole.end));
    return {begin - key, end - key};
  }
  // The hole within these keys.
  SeenKeys hidden(u32 row, const SeenKeys& seen) const {
    const KeyHole hole = keys.hole(query + row);
    if (hole.length() == 0) return {};
    const auto inside = [&](i32 place) {
      return std::clamp(static_cast<u32>(place), key + seen.begin, key + seen.end) - key;
    };
    return {inside(hole.begin), inside(hole.end)};
  }
};

static_assert(attention_key_rows % attention_query_rows == 0);

// Visits the score blocks of the query block that starts at `query`, with keys ascending from the first key
// that any of its rows sees, but for those in the holes of all rows.
template <class Fn>
void for_score_blocks(u32 tokens, u32 query, const VisibleKeys& keys, Fn fn) {
  const u32 rows = std::min(attention_query_rows, tokens - query), end = query + rows;
  const u32 first = keys.least(query, end);
  for (u32 key = first; key < end; key += attention_key_rows) {
    const u32 width = std::min(attention_key_rows, end - key);
    if (key != first && keys.all_hidden(query, end, key, width)) continue;
    fn(ScoreBlock{keys, query, rows, key, width, key == first});
  }
}

}  // namespace tidepool
