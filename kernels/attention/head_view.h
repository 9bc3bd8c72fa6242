// HeadView addresses one head of one sequence inside [B, T, (NH + NKV) D + NKV V] and [B, T, NH V] buffers,
// and inside a tile's past.
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
// Rows are tokens of the sequence.
struct HeadView {
  AttentionShape shape;
  u32 head = 0;
  u32 first = 0;      // row of the first query
  bool past = false;  // keys and values are in a tile's past

  template <class Op>
  HeadView(const Op& op, u32 number)
      : shape(op.shape), head(number), first(op.tile.first), past(bool(op.tile.past)) {}

  u32 end() const { return first + shape.tokens; }
  u32 qkv_stride() const { return shape.qkv_columns(); }
  u32 out_stride() const { return shape.out_columns(); }
  // Elements from the array's beginning to that of the sequence, minus the rows before the first query.
  u64 of_row(u32 row) const { return u64{head / shape.heads} * shape.tokens + row - first; }
  u64 of_sequence() const { return head % shape.heads; }
  u64 kv_head() const { return of_sequence() / shape.group(); }
  u64 q(u32 row) const { return of_row(row) * qkv_stride() + of_sequence() * shape.head_size; }
  u32 key_stride() const { return past ? shape.key_columns() + shape.value_columns() : qkv_stride(); }
  u64 keys_of_row(u32 row) const {
    return past ? u64{row} * key_stride() : of_row(row) * qkv_stride() + shape.query_columns();
  }
  u64 k(u32 row) const { return keys_of_row(row) + kv_head() * shape.head_size; }
  u64 v(u32 row) const {
    return keys_of_row(row) + shape.key_columns() + kv_head() * shape.value_head_size();
  }
  u64 out(u32 row) const { return of_row(row) * out_stride() + of_sequence() * shape.value_head_size(); }
  u64 lse(u32 row) const { return u64{head} * shape.tokens + row - first; }
  u64 dropout(u32 row, u32 key) const { return lse(row) * end() + key; }

  // The array that k() and v() are places in. `op`: Attention or AttentionBackward.
  template <class Op>
  const float* keys(const Op& op) const {
    return past ? op.tile.past.fp32() : op.qkv.fp32();
  }
  float* key_gradients(const AttentionBackward& op) const { return past ? op.dpast : op.dqkv.fp32(); }
};

// `sinks`: [NH]
inline float sink_of(Param sinks, const HeadView& head) {
  float scratch;
  return *rows::widened(sinks.at(head.of_sequence()), 1, &scratch);
}

// The keys that each row of a sequence sees: from its first one to itself, but for its hole.
struct VisibleKeys {
  AttentionShape shape;
  u32 first = 0;                   // row of the first query
  u32 tile_tokens = 0;             // 0: no tile
  const i32* starts = nullptr;     // [T], or null: 0 for all
  const KeyHole* holes = nullptr;  // [T], or null

  u32 of(u32 row) const {
    return shape.first_seen(row, starts == nullptr ? 0 : static_cast<u32>(starts[row - first]));
  }
  // RETURNS: the first key that rows [begin, end) see: that of `begin`, because first keys never decrease.
  u32 least(u32 begin, u32 end) const {
    for (u32 row = begin; row < end; ++row) {
      CHECK(of(row) <= row && of(row) >= of(begin), of(row), row, of(begin));
    }
    return of(begin);
  }
  KeyHole hole(u32 row) const { return holes == nullptr ? KeyHole{} : holes[row - first]; }
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
  const u64 row = head.of_row(head.first);
  return {.shape = head.shape,
          .first = head.first,
          .tile_tokens = head.past ? op.tile.tile_tokens : 0,
          .starts = op.starts == nullptr ? nullptr : op.starts + row,
          .holes = op.holes == nullptr ? nullptr : op.holes + row};
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

// Rows of a query block, on which bits depend. Keys and values are packed for each product, which pays with
// more rows; in a narrow window more of a product would be hidden.
inline constexpr u32 query_rows_max = 256;
// `op`: Attention or AttentionBackward.
template <class Op>
u32 query_rows(const Op& op) {
  constexpr u32 wide = 1024;
  const bool sees_many = op.shape.window == 0 || op.shape.window >= wide;
  return op.tile.past && sees_many ? query_rows_max : attention_query_rows;
}

// Visits the score blocks of queries [query, end), with keys ascending from the first key that any of them
// sees, but for those in the holes of all rows.
template <class Fn>
void for_score_blocks(u32 query, u32 end, const VisibleKeys& keys, Fn fn) {
  const u32 rows = end - query;
  const u32 first = keys.least(query, end);
  u32 width = 0;
  for (u32 key = first; key < end; key += width) {
    width = std::min(attention_key_rows, end - key);
    if (keys.tile_tokens != 0) width = std::min(width, keys.tile_tokens - key % keys.tile_tokens);
    if (key != first && keys.all_hidden(query, end, key, width)) continue;
    fn(ScoreBlock{keys, query, rows, key, width, key == first});
  }
}

}  // namespace tidepool
