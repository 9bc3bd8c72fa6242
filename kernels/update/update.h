// update() changes one chunk set by its rule: new state and parameters, cast and checksums, in one pass per
// tile.
#pragma once

#include <array>
#include <span>

#include "kernels/update/slot_formats.h"
#include "kernels/update/update_scalars.h"
#include "tidepool/core_pool.h"
#include "tidepool/state_slot.h"

namespace tidepool {

// Elements [begin, end) of the chunk with or without decay; ascending, covering the chunk.
struct DecaySegment {
  u64 begin = 0, end = 0;
  bool decay = false;
};

inline constexpr u32 update_arrays_max = 1 + state_slots_max;

struct UpdateArray {
  std::byte* data = nullptr;
  // Output for block checksums, or empty: one XXH3 per checksum_block_elements, of the new values in memory.
  // The caller chooses the seed (chunk, version).
  std::span<u64> hashes;
  u64 seed = 0;
};

// A tensor of the chunk, for rules of whole tensors.
struct UpdateTensor {
  u64 begin = 0;
  u32 rows = 0;  // 0: the tensor is no matrix
  u32 columns = 0;

  u32 height() const { return rows > 0 ? rows : 1; }
  u64 elements() const { return u64{height()} * columns; }
  bool operator==(const UpdateTensor&) const = default;
};

// Gives values in place of a gradient.
class GradientSource {
 public:
  virtual ~GradientSource() = default;
  // Elements [begin, end) of the chunk. THREADS: any.
  virtual void read(u64 begin, u64 end, float* out) const = 0;
};

struct UpdateChunk {
  u64 elements = 0;
  const std::byte* grad = nullptr;  // [elements] of the precision: float, bf16 or fp16
  // `param`, of the same type as grad and in fp16 only written; then the part's slots (StateSlots). A
  // direction has the place of `grad` instead: it replaces the gradient.
  std::array<UpdateArray, update_arrays_max> arrays;
  std::span<const DecaySegment> segments;
  Rounding rounding;                       // of slots whose format is rounded at random
  const GradientSource* source = nullptr;  // if not null, in place of `grad`
  // For rules of whole tensors: the chunk's tensors in order, and scratch memory, as large as the rule says.
  std::span<const UpdateTensor> tensors;
  std::span<std::byte> scratch;
};

struct UpdateTile;
struct UpdateTileHashes;
// A rule's arithmetic on a tile, for this CPU's vectors. `hashes` (or null) absorb the new values of arrays.
// RETURNS: how many arrays they absorbed, from the first on. None, if not all arrays fill whole XXH3 blocks,
// or the target does not support it; and no slot with codes, whose blocks fill no whole stripes.
using UpdateTileFn = u32 (*)(const UpdateTile&, Precision, const UpdateScalars&, UpdateTileHashes* hashes);

// `slots`: those of the chunk's rule alone. `rule`: the arithmetic of the part.
void update(const UpdateChunk&, const StateSlots& slots, UpdatePart, UpdateTileFn rule, const UpdateScalars&,
            CorePool&);

}  // namespace tidepool
