// Launch shapes of the gated delta rule on the device.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/delta_rule/delta_channels.h"

namespace tidepool::cuda {

// The convolution: a thread per channel, a block per block of channels of a group of rows of a sequence.
inline constexpr u32 delta_channel_threads = delta_channel_block;
constexpr u32 delta_groups(const DeltaShape& s) {
  return s.sequences * static_cast<u32>(div_up(s.tokens, u64{delta_group_rows}));
}
constexpr LaunchShape delta_convolution_launch(const DeltaShape& s) {
  return {.grid = {delta_groups(s) * delta_channel_blocks(s)}, .block = {delta_channel_threads}};
}

// The norm: `lanes` neighbours of a warp have a head of a row, eight columns each.
inline constexpr u32 gated_norm_threads = 256, gated_norm_backward_threads = 512;
constexpr u32 gated_norm_lanes(u32 value_size) {
  u32 lanes = 1;
  while (vector_elements * lanes < value_size) lanes *= 2;
  return lanes;
}
static_assert(gated_norm_lanes(delta_head_size_max) <= warp_threads);
constexpr LaunchShape gated_norm_launch(const DeltaShape& s) {
  const u64 heads = u64{s.rows()} * s.value_heads,
            in_block = gated_norm_threads / gated_norm_lanes(s.value_size);
  return {.grid = {static_cast<u32>(div_up(heads, in_block))}, .block = {gated_norm_threads}};
}
// Backward: a block per group of rows, which sums the group's share of the weight's gradient.
constexpr u32 gated_norm_groups(const DeltaShape& s) {
  return static_cast<u32>(div_up(s.rows(), u64{delta_group_rows}));
}
constexpr LaunchShape gated_norm_backward_launch(const DeltaShape& s) {
  return {.grid = {gated_norm_groups(s)}, .block = {gated_norm_backward_threads}};
}

// GroupNorm: a block per row and key head; backward's results: a block per group of rows and 128 columns.
inline constexpr u32 group_norm_threads = 256, group_norm_columns = 128;
constexpr LaunchShape group_norm_launch(const DeltaShape& s) {
  return {.grid = {s.rows() * s.key_heads}, .block = {group_norm_threads}};
}
constexpr LaunchShape group_norm_backward_launch(const DeltaShape& s) {
  return {.grid = {static_cast<u32>(div_up(s.value_columns(), u64{group_norm_columns})) *
                   static_cast<u32>(div_up(s.rows(), u64{delta_group_rows}))},
          .block = {group_norm_columns}};
}

// Sums over groups: 32 columns of each of `kinds` sums per block; eight threads share the groups.
inline constexpr u32 delta_sums_columns = warp_threads, delta_sums_threads_y = 8;
constexpr LaunchShape delta_sums_launch(u32 kinds, u32 columns) {
  return {.grid = {static_cast<u32>(div_up(columns, delta_sums_columns)), kinds},
          .block = {delta_sums_columns, delta_sums_threads_y}};
}

// The rule. Columns of a state do not depend on each other: a block goes through the chunks of a head with a
// slice of the state's columns in shared memory. Narrow slices for long columns, so that it fits everywhere.
inline constexpr u32 delta_threads = 256;
constexpr u32 delta_slice(u32 key_size) { return key_size <= 128 ? 32 : 16; }
constexpr u32 delta_slices(const DeltaShape& s) {
  return static_cast<u32>(div_up(s.value_size, delta_slice(s.key_size)));
}
// Arrays of a chunk, in floats: six by token; pairs of tokens; the two stages of a product.
inline constexpr u32 delta_pairs_pitch = delta_chunk_tokens + 4;
inline constexpr u32 delta_pairs_floats = delta_chunk_tokens * delta_pairs_pitch;
inline constexpr u32 delta_block_floats = 6 * delta_chunk_tokens + delta_pairs_floats + 2 * 64 * 32;
// The slice's columns of the state, and of the chunk.
inline constexpr u32 delta_state_floats = 128 * delta_slice(128);
static_assert(delta_state_floats == delta_head_size_max * delta_slice(delta_head_size_max));
constexpr u32 delta_slice_bytes(u32 slice) {
  return 4 * (delta_block_floats + delta_chunk_tokens * slice + delta_state_floats);
}
static_assert(delta_slice_bytes(delta_slice(1)) <= shared_bytes_everywhere);

// `heads`: of a sequence, that the launch has.
constexpr LaunchShape delta_slices_launch(const DeltaShape& s, u32 heads) {
  return {.grid = {s.sequences * heads * delta_slices(s)},
          .block = {delta_threads},
          .shared_bytes = delta_slice_bytes(delta_slice(s.key_size))};
}

// Backward's gradients: a block has the chunks that begin in a window of 64 tokens of a segment.
constexpr u32 delta_segments(const DeltaShape& s) {
  return static_cast<u32>(div_up(s.tokens, u64{delta_segment_tokens}));
}
constexpr u32 delta_windows(const DeltaShape& s, u32 segment) {
  const u32 begin = segment * delta_segment_tokens, left = s.tokens - begin;
  return static_cast<u32>(
      div_up(left < delta_segment_tokens ? left : delta_segment_tokens, u64{delta_chunk_tokens}));
}
// Also the gradients of the pairs, and four values by token.
inline constexpr u32 delta_gradients_bytes =
    4 * (delta_block_floats + delta_pairs_floats + 4 * delta_chunk_tokens);
static_assert(delta_gradients_bytes <= shared_bytes_everywhere);
constexpr LaunchShape delta_gradients_launch(const DeltaShape& s, u32 segment) {
  return {.grid = {s.sequences * s.key_heads * delta_windows(s, segment)},
          .block = {delta_threads},
          .shared_bytes = delta_gradients_bytes};
}

}  // namespace tidepool::cuda
