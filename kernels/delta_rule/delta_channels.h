// Blocks of the convolution's channels, whose columns stand side by side in the projections too.
#pragma once

#include "kernels/delta_rule/delta_rule.h"

namespace tidepool {

inline constexpr u32 delta_channel_block = 128;

struct DeltaChannels {
  u32 channel = 0, column = 0, count = 0;  // column: in the projections
};

constexpr u32 delta_blocks_of(u32 width) { return static_cast<u32>(div_up(width, delta_channel_block)); }
// RETURNS: the number of blocks.
constexpr u32 delta_channel_blocks(const DeltaShape& s) {
  if (!s.by_key_head) return delta_blocks_of(s.channels());
  return s.key_heads * (2 * delta_blocks_of(s.key_size) + delta_blocks_of(s.heads_per_key() * s.value_size));
}

constexpr DeltaChannels delta_channels_of(const DeltaShape& s, u32 block) {
  const auto cut = [&](u32 channel, u32 column, u32 width, u32 part) {
    // std::min would read the constant's address, which a GPU does not have.
    const u32 from = part * delta_channel_block, left = width - from;
    return DeltaChannels{channel + from, column + from,
                         left < delta_channel_block ? left : delta_channel_block};
  };
  if (!s.by_key_head) return cut(0, s.convolved(), s.channels(), block);
  const u32 of_key = delta_blocks_of(s.key_size), values = s.heads_per_key() * s.value_size,
            each = 2 * of_key + delta_blocks_of(values);
  const u32 head = block / each, part = block % each;
  if (part < of_key) return cut(head * s.key_size, s.q(head), s.key_size, part);
  if (part < 2 * of_key)
    return cut(s.key_columns() + head * s.key_size, s.k(head), s.key_size, part - of_key);
  return cut(2 * s.key_columns() + head * values, s.v(head * s.heads_per_key()), values, part - 2 * of_key);
}

}  // namespace tidepool
