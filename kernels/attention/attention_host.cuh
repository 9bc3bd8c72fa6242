// Host side of attention's launches: turns operations into kernel arguments.
#pragma once

#include "kernels/attention/attention_m16n8k16.cuh"
#include "kernels/attention/attention_m8n8k4.cuh"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/launch.h"

namespace tidepool::cuda {

// Units for the current device. Falls back to fused multiply-adds, which every GPU has, if its capability is
// unknown.
inline AttentionUnits attention_units_here(Precision precision, const AttentionShape& s, AttentionPass pass) {
  const int capability = current_capability();
  return capability == 0 ? AttentionUnits::fma : attention_units(precision, s, capability, pass);
}

inline AttentionSizes attention_sizes(const AttentionShape& s, const AttentionTile& tile) {
  const float scale = s.scale();
  const bool past = bool(tile.past);
  return {.first = tile.first,
          .tokens = tile.first + s.tokens,
          .heads = s.heads,
          .head_size = s.head_size,
          .value_size = s.value_head_size(),
          .group = s.group(),
          .query_columns = s.query_columns(),
          .key_columns = s.key_columns(),
          .qkv_columns = s.qkv_columns(),
          .out_columns = s.out_columns(),
          .key_stride = past ? s.key_columns() + s.value_columns() : s.qkv_columns(),
          .keys_begin = past ? 0 : s.query_columns(),
          .window = s.window,
          .scale = scale,
          .scale_log2 = scale * log2_of_e,
          .raw_cap = s.cap != 0 ? s.raw_cap() : 0,
          .inverse_cap = s.cap != 0 ? 1 / s.raw_cap() : 0};
}

template <class T>
AttentionForwardArguments<T> forward_arguments(const Attention& op) {
  return {.sizes = attention_sizes(op.shape, op.tile),
          .qkv = elements<T>(op.qkv),
          .keys = elements<T>(op.tile.past ? op.tile.past : op.qkv),
          .out = elements<T>(op.out),
          .lse = op.lse,
          .starts = op.starts,
          .holes = op.holes,
          .dropout = dropout_row_of(op.dropout),
          .sinks = {op.sinks.data, op.sinks.precision}};
}

template <class T>
AttentionBackwardArguments<T> backward_arguments(const AttentionBackward& op) {
  return {.sizes = attention_sizes(op.shape, op.tile),
          .qkv = elements<T>(op.qkv),
          .keys = elements<T>(op.tile.past ? op.tile.past : op.qkv),
          .out = elements<T>(op.out),
          .lse = op.lse,
          .dout = elements<T>(op.dout),
          .dqkv = elements<T>(op.dqkv),
          .dpast = op.dpast,
          .starts = op.starts,
          .holes = op.holes,
          .dropout = dropout_row_of(op.dropout)};
}

// Calls fn(Mma(), Size<n>) with the instruction of `units`.
template <class Fn>
void for_attention_mma(AttentionUnits units, Precision precision, const AttentionShape& s, Fn fn) {
  for_attention_tensor_size(attention_width(s), [&](auto size) {
    if (units == AttentionUnits::tensor_sm70) return fn(M8n8k4(), size);
    for_half(precision, [&](auto type) { fn(M16n8k16<decltype(type)>(), size); });
  });
}

// Calls fn(lanes) for the smallest group of lanes whose columns hold the head.
template <class Fn>
void for_fma_lanes(const AttentionShape& s, Fn fn) {
  switch (attention_fma_lanes(attention_width(s))) {
    case 4:
      return fn(std::integral_constant<u32, 4>());
    case 8:
      return fn(std::integral_constant<u32, 8>());
    case 16:
      return fn(std::integral_constant<u32, 16>());
    default:
      return fn(std::integral_constant<u32, 32>());
  }
}

}  // namespace tidepool::cuda
