// AttentionSlice is the part of a batch that one cuDNN call computes; decides when cuDNN is used. Needs no
// CUDA.
//
// cuDNN's forward is faster than our kernels on GPUs with `wgmma`, sm_90. Its backward is deterministic only
// if it keeps ds in memory, T x T for each head. So backward goes over sequences in slices, and over kv heads
// if one sequence does not fit. Slices depend on shapes alone: placement must not change bits.
#pragma once

#include <algorithm>

#include "kernels/attention/attention.h"

namespace tidepool::cuda {

inline constexpr u32 cudnn_attention_tokens_min = 128;  // shorter sequences gain little
inline constexpr u32 cudnn_attention_head_size_max = 128;
// Above these limits, ds of one call exceeds 32-bit addresses, or its heads exceed a grid's second dimension.
inline constexpr Bytes cudnn_ds_bytes_max{2 * gib};
inline constexpr u32 cudnn_heads_max = 65535;
inline constexpr u64 cudnn_elements_max = (u64{1} << 31) - 1;  // elements of qkv in one call

// `capability`: 10 times major plus minor. Blackwell's engines have not been tested.
constexpr bool cudnn_attention_pays_on(int capability) { return capability / 10 == 9; }
constexpr bool cudnn_attention_pays(const AttentionShape& s, Precision precision, int capability) {
  return cudnn_attention_pays_on(capability) && precision != Precision::fp32 &&
         s.tokens >= cudnn_attention_tokens_min && s.head_size % 8 == 0 &&
         s.head_size <= cudnn_attention_head_size_max;
}

// Part of the batch for one call of the library.
struct AttentionSlice {
  u32 sequences = 0, kv_heads = 0;  // 0: not even the smallest slice fits
  constexpr auto operator<=>(const AttentionSlice&) const = default;
};

inline constexpr u64 cudnn_attention_slack = 64 * kib;  // memory of a plan beside its arrays
inline constexpr u64 cudnn_scratch_alignment = 256;

// Bytes for sums of dout . out by row, in fp32, an array that the plan requires.
constexpr u64 cudnn_softmax_sum_bytes(const AttentionShape& s, const AttentionSlice& slice) {
  return round_up(u64{slice.sequences} * slice.kv_heads * s.group() * s.tokens * sizeof(float), 256);
}
// Bytes of ds in 16 bits, with padded edges.
constexpr u64 cudnn_ds_bytes(const AttentionShape& s, const AttentionSlice& slice) {
  const u64 heads = u64{slice.sequences} * slice.kv_heads * s.group();
  return heads * round_up(u64{s.tokens}, 64) * round_up(u64{s.tokens}, 128) * 2;
}
// Memory of backward of a slice beside its operands: ds, the sums, and with grouped queries dk and dv of
// every query head. Measured on plans of cuDNN 9.19.
constexpr u64 cudnn_backward_bytes(const AttentionShape& s, const AttentionSlice& slice) {
  const u64 heads = u64{slice.sequences} * slice.kv_heads * s.group();
  const u64 of_query_heads = s.group() > 1 ? heads * 2 * s.tokens * s.head_size * 2 : 0;
  return cudnn_ds_bytes(s, slice) + of_query_heads + cudnn_softmax_sum_bytes(s, slice) +
         cudnn_attention_slack;
}
// Lost at the begin of a scratch to alignment, at any address.
inline constexpr u64 cudnn_backward_fixed_bytes = cudnn_attention_slack + cudnn_scratch_alignment;

namespace cudnn_slices_detail {

// RETURNS: the largest part of `all`, at most `most`, that divides `all` into parts as equal as possible.
constexpr u32 equal_parts(u32 all, u64 most) {
  return static_cast<u32>(div_up(u64{all}, div_up(u64{all}, std::min<u64>(all, most))));
}

}  // namespace cudnn_slices_detail

constexpr AttentionSlice cudnn_backward_slice(const AttentionShape& s, Bytes scratch) {
  using namespace cudnn_slices_detail;
  const auto fit = [&](const AttentionSlice& one) -> u64 {
    if (scratch.value < cudnn_backward_fixed_bytes) return 0;
    const u64 bytes = cudnn_backward_bytes(s, one) - cudnn_attention_slack;
    return std::min({(scratch.value - cudnn_backward_fixed_bytes) / bytes,
                     cudnn_ds_bytes_max.value / cudnn_ds_bytes(s, one),
                     u64{cudnn_heads_max} / (one.kv_heads * s.group()),
                     cudnn_elements_max / (u64{s.tokens} * s.qkv_columns())});
  };
  if (const u64 most = fit({1, s.key_heads()}); most > 0)
    return {equal_parts(s.sequences, most), s.key_heads()};
  const u64 most = fit({1, 1});
  return most == 0 ? AttentionSlice{} : AttentionSlice{1, equal_parts(s.key_heads(), most)};
}

// Forward needs memory only for logarithms that the caller does not keep.
constexpr AttentionSlice cudnn_forward_slice(const AttentionShape& s, Bytes workspace) {
  using namespace cudnn_slices_detail;
  const u64 of_sequence = u64{s.heads} * s.tokens * sizeof(float);
  const u64 room = workspace.value < cudnn_attention_slack ? 0 : workspace.value - cudnn_attention_slack;
  const u64 most = std::min({room / of_sequence, u64{cudnn_heads_max} / s.heads,
                             cudnn_elements_max / (u64{s.tokens} * s.qkv_columns())});
  if (most == 0) return {};
  return {equal_parts(s.sequences, most), s.key_heads()};
}

}  // namespace tidepool::cuda
