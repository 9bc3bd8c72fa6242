// An update rule on one tile, with checksums of the new values.
#pragma once

#include "kernels/checksum/xxh3_lanes.h"
#include "kernels/update/update.h"

namespace tidepool {

// A tile is updated in lines: 1 KiB of a 4-byte array, half of that of a 2-byte array.
inline constexpr u64 update_line_elements = 256;
static_assert(checksum_block_elements % (2 * update_line_elements) == 0);
static_assert(update_line_elements == slot_block_elements);

struct UpdateTileHashes {
  std::array<Xxh3Lanes, update_arrays_max> of;  // by array, as in UpdateChunk; after xxh3_begin()
};

struct UpdateTile {
  u64 elements = 0;
  const std::byte* grad = nullptr;
  std::array<std::byte*, update_arrays_max> arrays{};
  u64 chunk_begin = 0;  // begin of the tile, in the segments' numbering
  std::span<const DecaySegment> segments;
  Rounding rounding;
};

}  // namespace tidepool
