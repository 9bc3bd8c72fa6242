// Addresses of one value head of the gated delta rule.
#pragma once

#include "kernels/delta_rule/delta_rule.h"

namespace tidepool {

// DeltaPlace finds a head's values in the arrays. `sequence`: its number.
struct DeltaPlace {
  const DeltaShape& shape;
  u32 sequence = 0, head = 0;

  constexpr u32 key_head() const { return head / shape.heads_per_key(); }
  constexpr u64 row(u32 token) const { return u64{sequence} * shape.tokens + token; }
  constexpr u64 q(u32 token) const {
    return row(token) * shape.channels() + shape.q_channels() + u64{key_head()} * shape.key_size;
  }
  constexpr u64 k(u32 token) const {
    return row(token) * shape.channels() + shape.k_channels() + u64{key_head()} * shape.key_size;
  }
  constexpr u64 v(u32 token) const {
    return row(token) * shape.channels() + shape.v_channels() + u64{head} * shape.value_size;
  }
  constexpr u64 out(u32 token) const {
    return row(token) * shape.value_columns() + u64{head} * shape.value_size;
  }
  constexpr u64 b(u32 token) const { return row(token) * shape.columns() + shape.b(head); }
  constexpr u64 a(u32 token) const { return row(token) * shape.columns() + shape.a(head); }
  // Of the state before or after a tile, which has one sequence.
  constexpr u64 state() const { return u64{head} * shape.key_size * shape.value_size; }
  constexpr const i32* starts(const i32* all) const { return all != nullptr ? all + row(0) : nullptr; }
};

}  // namespace tidepool
