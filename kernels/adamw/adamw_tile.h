// AdamW on one tile, with checksums of the new values, for this CPU's vectors.
#pragma once

#include "kernels/adamw/adamw.h"
#include "kernels/checksum/xxh3_lanes.h"

namespace tidepool {

// A tile is updated in lines: 1 KiB of a 4-byte kind, half of that of a 2-byte kind.
inline constexpr u64 adamw_line_elements = 256;
static_assert(checksum_block_elements % (2 * adamw_line_elements) == 0);

// RETURNS: bytes per element of AdamWChunk::master.
constexpr u64 adamw_master_bytes(Precision precision) {
  return precision == Precision::fp16 ? 4 : precision == Precision::bf16 ? 2 : 0;
}

struct AdamWTileHashes {
  Xxh3Lanes param, master, momentum, variance;  // after xxh3_begin()
};

struct AdamWTile {
  u64 elements = 0;
  const std::byte* grad = nullptr;
  std::byte* param = nullptr;
  std::byte* master = nullptr;
  float* momentum = nullptr;
  float* variance = nullptr;
  u64 chunk_begin = 0;  // begin of the tile, in the segments' numbering
  std::span<const DecaySegment> segments;
};

// Per element; each operation is rounded as written, and fma once, on every target alike (a GPU that follows
// this list makes the same bits):
//   m = fma(beta1, m, grad_to_momentum * grad)
//   r = grad_to_root * grad
//   v = fma(r, r, beta2 * v)
//   param = fms(decay, param, m / fma(sqrt(v), root_factor, root_offset))     (decay 1 for no decay)
//
// `hashes` (or null) absorb the new values of every kind that the precision has.
// RETURNS: true if they absorbed the values: only if all kinds fill whole XXH3 blocks, and the target
// supports it.
bool adamw_tile(const AdamWTile&, Precision, const AdamWScalars&, AdamWTileHashes* hashes);

}  // namespace tidepool
