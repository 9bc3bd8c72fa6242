// StateAtRest accesses the training state at rest, chunk by chunk in their homes, for checkpoints and
// weights.
#pragma once

#include <span>

#include "base/result.h"
#include "tidepool/chunk.h"

namespace tidepool {

inline constexpr u32 writes_at_rest_max = 16;

// REQUIRES: at rest (no op in flight).
// THREADS: the engine's thread.
class StateAtRest {
 public:
  virtual ~StateAtRest() = default;

  // Reads the whole content of a persistent chunk from its home. Content from disk is verified by its
  // checksum. Blocks.
  virtual Result<void> read_home(ChunkId, std::span<std::byte> out) = 0;
  // Begins a write; a home on disk may be written while the caller continues.
  // REQUIRES: `content` stays unchanged until end_write_home; at most writes_at_rest_max chunks at a time.
  virtual Result<void> begin_write_home(ChunkId, std::span<const std::byte> content) = 0;
  virtual Result<void> end_write_home(ChunkId) = 0;  // blocks
  Result<void> write_home(ChunkId id, std::span<const std::byte> content) {
    TRY(begin_write_home(id, content));
    return end_write_home(id);
  }
  // Sets the home to zeros, without writing them to a disk if its file system can mark ranges as zero.
  virtual Result<void> clear_home(ChunkId) = 0;
  // RETURNS: the home itself, to read and write; empty if the host cannot reach it (disk, a GPU's memory).
  virtual std::span<std::byte> home_memory(ChunkId) const = 0;
};

}  // namespace tidepool
