// Chooses the attention kernels of a device, and their launch shapes. Needs no CUDA.
//
// Tensor cores are used if rows of a head of q, k and v consist of whole vectors of 8, at most 256. Tiles of
// both widths are padded to the next of attention_tensor_sizes that holds the wider: `tensor` for bf16 from
// sm_80 on and fp16 from sm_75 on (there backward only up to head size 96, for lack of shared memory);
// `tensor_sm70` for fp16 on sm_70, which has another instruction. `fma` does the rest: fp32, devices without
// such tensor cores, head sizes like 20 or above 256. The choice depends on sizes and device only, never on
// addresses: placement must not change bits.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "kernels/attention/attention.h"
#include "kernels/cuda/launch_shape.h"

namespace tidepool::cuda {

// Head sizes for tensor cores. 32 is for small models and tests; 256 works but is not fast.
inline constexpr u32 attention_tensor_sizes[] = {32, 64, 80, 96, 128, 256};
inline constexpr u32 attention_tensor_size_max = std::end(attention_tensor_sizes)[-1];

enum class AttentionUnits { fma, tensor, tensor_sm70 };
enum class AttentionPass { forward, backward };
// `capability`: 10 times major plus minor, 75 for sm_75.
constexpr AttentionUnits attention_units(Precision precision, u32 head_size, int capability,
                                         AttentionPass pass = AttentionPass::forward) {
  if (precision == Precision::fp32 || head_size % 8 != 0 || head_size > attention_tensor_size_max)
    return AttentionUnits::fma;
  if (capability < 75)
    return precision == Precision::fp16 ? AttentionUnits::tensor_sm70 : AttentionUnits::fma;
  // sm_75 has 64 KiB of shared memory; backward needs more for larger heads.
  if (capability < 80 && pass == AttentionPass::backward && head_size > 96) return AttentionUnits::fma;
  return capability < 80 && precision == Precision::bf16 ? AttentionUnits::fma : AttentionUnits::tensor;
}

// Width of the tiles that hold a head's rows of q and k, and those of v.
constexpr u32 attention_width(const AttentionShape& s) { return std::max(s.head_size, s.value_head_size()); }
constexpr AttentionUnits attention_units(Precision precision, const AttentionShape& s, int capability,
                                         AttentionPass pass = AttentionPass::forward) {
  if (s.head_size % 8 != 0) return AttentionUnits::fma;
  const AttentionUnits of_values = attention_units(precision, s.value_head_size(), capability, pass);
  return of_values == AttentionUnits::fma ? of_values
                                          : attention_units(precision, attention_width(s), capability, pass);
}

// Checks an operation's arrays; stops the process if a kernel cannot read them.
void check_attention(const AttentionShape&, AttentionUnits, const AttentionTile&,
                     std::initializer_list<ConstValues> arrays);

// RETURNS: the size of the tiles that hold the head; 0: none does.
constexpr u32 attention_tensor_size(u32 head_size) {
  for (u32 size : attention_tensor_sizes) {
    if (head_size <= size) return size;
  }
  return 0;
}

// A tile's row of `size` halves, in chunks of 16 bytes. The chunks of one column in eight rows must lie in
// eight different groups of banks: rows of a multiple of 128 bytes are swizzled; other rows have a spare
// chunk that keeps the pitch odd.
template <u32 size>
struct AttentionTileRow {
  static_assert(size % 16 == 0);
  static constexpr u32 chunks = size / 8;
  static constexpr bool swizzled = chunks % 8 == 0;
  static constexpr u32 pitch = swizzled ? chunks : chunks + 1;
  static constexpr u32 elements = 8 * pitch;
  static constexpr u32 bytes = 16 * pitch;
};

// Forward: four warps of 32 rows (16 for large heads, whose outputs fill the registers) process `keys` keys
// at a time; q, k and v have a tile each. Shared memory: 32 KiB for head size 64, 64 KiB for 128 (48 with
// dropout). Registers, by CUDA 13's ptxas for sm_90: 232 and 237 for 64; 255 for 128, of which seven spill
// without dropout. So two blocks fit a multiprocessor. A fragment of sm_70 takes twice the registers: there a
// tile has fewer keys, 48 KiB for 128.
template <u32 size, bool dropout, AttentionUnits units>
struct AttentionForwardTile {
  static constexpr u32 warps = 4, threads = 32 * warps;
  static constexpr u32 row_tiles = size <= 128 ? 2 : 1;  // tiles of 16 rows per warp
  static constexpr u32 rows = 16 * row_tiles * warps;
  static constexpr bool spares_registers = size <= 128 && !dropout && units == AttentionUnits::tensor;
  static constexpr u32 keys = size <= 64 || spares_registers ? 64 : 32;
  static constexpr u32 shared_bytes = (rows + 2 * keys) * AttentionTileRow<size>::bytes;
  static_assert(shared_bytes <= 64 * kib);
};

// Backward, both kernels: warps own 16 rows each (keys in one kernel, queries in the other). `step` rows of
// the two other arrays stream through `stages` buffers, and a batch of these rows at a time has its scores in
// registers.
enum class OwnRowsLie { in_registers, in_memory, in_shared };

// Owned rows are kept in registers. For 128 there are eight warps and one block per multiprocessor: 255
// registers by keys, of which up to 9 spill, and 236 to 255 by queries; 65 and 64 KiB of shared memory. For
// 64 there are three blocks of four warps: 168 registers, of which at most one spills on sm_80 and 90, five
// on sm_120; half the shared memory.
template <u32 size, AttentionUnits units>
struct AttentionBackwardCut {
  static constexpr u32 warps = size <= 64 ? 4 : 8;
  // lower bound of blocks that share a multiprocessor's registers
  static constexpr u32 blocks = size <= 64 ? 3 : 1;
  // in_memory: loaded again at each step, from L1.
  static constexpr OwnRowsLie own = size <= 128 ? OwnRowsLie::in_registers : OwnRowsLie::in_memory;
  static constexpr u32 stages = 2;
  static constexpr u32 step = size <= 128 ? 64 : 32;
  static constexpr u32 query_batch = size <= 64 || size == 128 ? 16 : 32, key_batch = 32;
};
// Owned rows would take twice the registers, so they lie in shared memory. Copies to shared memory do not
// overlap with products, so a second stage would gain nothing. 80 KiB for 128 and 256, 25 for 64.
template <u32 size>
struct AttentionBackwardCut<size, AttentionUnits::tensor_sm70> {
  static constexpr u32 warps = size <= 64 || size > 128 ? 4 : 8;
  static constexpr u32 blocks = size <= 64 ? 3 : 1;
  static constexpr OwnRowsLie own = OwnRowsLie::in_shared;
  static constexpr u32 stages = 1;
  static constexpr u32 step = size <= 128 ? 32 : 16;
  static constexpr u32 query_batch = step, key_batch = step;
};

template <u32 size, AttentionUnits units>
struct AttentionBackwardTile : AttentionBackwardCut<size, units> {
  using Cut = AttentionBackwardCut<size, units>;
  static constexpr u32 threads = 32 * Cut::warps, rows = 16 * Cut::warps;
  static constexpr u32 parts = size <= 128 ? 1 : 2;  // blocks that share the columns of dk and dv
  static constexpr u32 after(u32 stage) { return (stage + 1) % Cut::stages; }

  // For each of the two owned arrays, in shared memory.
  static constexpr u32 own_rows = Cut::own == OwnRowsLie::in_shared ? rows : 0;
  static constexpr u32 own_elements = own_rows * AttentionTileRow<size>::elements;
  static constexpr u32 queries_shared_bytes =
      2 * (own_rows + Cut::stages * Cut::step) * AttentionTileRow<size>::bytes;
  static constexpr u32 statistics_bytes = Cut::stages * 3 * Cut::step * 4;  // lse, delta and first key
  static constexpr u32 keys_shared_bytes = queries_shared_bytes + statistics_bytes;
  static_assert(Cut::step % Cut::query_batch == 0 && Cut::step % Cut::key_batch == 0);
  static_assert(keys_shared_bytes <= 96 * kib);
};

// Fused multiply-adds: groups of `lanes` threads own two rows each; `step` rows stream by, as floats.
inline constexpr u32 attention_fma_threads = 128, attention_fma_columns = 16, attention_fma_own = 2;
constexpr u32 attention_fma_lanes(u32 head_size) {
  return head_size <= 64 ? 4 : head_size <= 128 ? 8 : head_size <= 256 ? 16 : 32;
}
constexpr u32 attention_fma_rows(u32 lanes) { return attention_fma_own * attention_fma_threads / lanes; }
constexpr u32 attention_fma_step(u32 lanes) { return lanes <= 8 ? 32 : lanes == 16 ? 16 : 8; }

namespace attention_detail {

// One block for `rows` rows of each head.
constexpr LaunchShape by_blocks_of_rows(const AttentionShape& s, u32 heads, u32 rows, u32 parts, u32 threads,
                                        u32 shared_bytes) {
  return {.grid = {static_cast<u32>(u64{s.sequences} * heads * div_up(s.tokens, rows) * parts)},
          .block = {threads},
          .shared_bytes = shared_bytes};
}
constexpr LaunchShape fma_launch(const AttentionShape& s, u32 heads) {
  const u32 lanes = attention_fma_lanes(attention_width(s)), columns = lanes * attention_fma_columns;
  return by_blocks_of_rows(s, heads, attention_fma_rows(lanes), 1, attention_fma_threads,
                           2 * attention_fma_step(lanes) * columns * sizeof(float));
}
template <u32 size>
struct Size {
  static constexpr u32 value = size;
};
template <AttentionUnits units>
struct Units {
  static constexpr AttentionUnits value = units;
};

}  // namespace attention_detail

// Calls fn(Size<n>) for the smallest n of attention_tensor_sizes that holds the head.
template <class Fn>
constexpr auto for_attention_tensor_size(u32 head_size, Fn fn) {
  using namespace attention_detail;
  switch (attention_tensor_size(head_size)) {
    case 32:
      return fn(Size<32>());
    case 64:
      return fn(Size<64>());
    case 80:
      return fn(Size<80>());
    case 96:
      return fn(Size<96>());
    case 128:
      return fn(Size<128>());
    default:
      return fn(Size<256>());
  }
}

// Calls fn(Size<n>, Units<units>) for tensor cores.
template <class Fn>
constexpr auto for_attention_tensor_tile(u32 head_size, AttentionUnits units, Fn fn) {
  using namespace attention_detail;
  return for_attention_tensor_size(head_size, [&](auto size) {
    return units == AttentionUnits::tensor ? fn(size, Units<AttentionUnits::tensor>())
                                           : fn(size, Units<AttentionUnits::tensor_sm70>());
  });
}

// Kernels with a soft cap have the tiles of those with dropout, because they need registers as well.
constexpr LaunchShape attention_forward_launch(const AttentionShape& s, AttentionUnits units, bool dropout) {
  if (units == AttentionUnits::fma) return attention_detail::fma_launch(s, s.heads);
  return for_attention_tensor_tile(attention_width(s), units, [&](auto size, auto which) {
    using Plain = AttentionForwardTile<size.value, false, which.value>;
    using Dropping = AttentionForwardTile<size.value, true, which.value>;
    return attention_detail::by_blocks_of_rows(
        s, s.heads, Plain::rows, 1, Plain::threads,
        dropout || s.cap != 0 ? Dropping::shared_bytes : Plain::shared_bytes);
  });
}
// dk and dv: blocks of keys of kv heads.
constexpr LaunchShape attention_backward_keys_launch(const AttentionShape& s, AttentionUnits units) {
  if (units == AttentionUnits::fma) return attention_detail::fma_launch(s, s.key_heads());
  return for_attention_tensor_tile(attention_width(s), units, [&](auto size, auto which) {
    using Tile = AttentionBackwardTile<size.value, which.value>;
    return attention_detail::by_blocks_of_rows(s, s.key_heads(), Tile::rows, Tile::parts, Tile::threads,
                                               Tile::keys_shared_bytes);
  });
}
// dq: blocks of queries.
constexpr LaunchShape attention_backward_queries_launch(const AttentionShape& s, AttentionUnits units) {
  if (units == AttentionUnits::fma) return attention_detail::fma_launch(s, s.heads);
  return for_attention_tensor_tile(attention_width(s), units, [&](auto size, auto which) {
    using Tile = AttentionBackwardTile<size.value, which.value>;
    return attention_detail::by_blocks_of_rows(s, s.heads, Tile::rows, 1, Tile::threads,
                                               Tile::queries_shared_bytes);
  });
}
// dout . out: one warp per token; `lanes` of its threads take a head at a time, eight elements each, and
// heads above 256 in two turns.
inline constexpr u32 attention_delta_threads = 256, attention_sinks_threads = 1024;
constexpr u32 attention_delta_lanes(u32 value_size) {
  u32 lanes = 1;
  while (8 * lanes < value_size && lanes < warp_threads) lanes *= 2;
  return lanes;
}
constexpr LaunchShape attention_delta_launch(const AttentionShape& s) {
  return {
      .grid = {static_cast<u32>(div_up(u64{s.sequences} * s.tokens, attention_delta_threads / warp_threads))},
      .block = {attention_delta_threads}};
}
// dsinks: a block for each head of a sequence; all sequences' rows pass by.
constexpr LaunchShape attention_sinks_launch(const AttentionShape& s) {
  return {.grid = {s.heads}, .block = {attention_sinks_threads}};
}

}  // namespace tidepool::cuda
