// The training state at rest, chunk by chunk in their homes: for checkpoints and weights.
#pragma once

#include <span>

#include "base/result.h"
#include "tidepool/chunk.h"

namespace tidepool {

inline constexpr u32 writes_at_rest_max = 16;

// THREADS: the engine's. REQUIRES: at rest (no op in flight).
class StateAtRest {
 public:
  virtual ~StateAtRest() = default;

  // The whole content of a persistent chunk in its home. Disk: checked against its checksum. Blocks.
  virtual Result<void> read_home(ChunkId, std::span<std::byte> out) = 0;
  // A home on disk may be written while the caller goes on: `content` must stay as it is until
  // end_write_home. Of up to writes_at_rest_max chunks at a time.
  virtual Result<void> begin_write_home(ChunkId, std::span<const std::byte> content) = 0;
  virtual Result<void> end_write_home(ChunkId) = 0;  // blocks
  Result<void> write_home(ChunkId id, std::span<const std::byte> content) {
    TRY(begin_write_home(id, content));
    return end_write_home(id);
  }
  // Zeros, which are not written to a disk where its file system keeps note of them.
  virtual Result<void> clear_home(ChunkId) = 0;
  // The home itself, to read and write; empty where the host cannot reach it (disk, a GPU's memory).
  virtual std::span<std::byte> home_memory(ChunkId) const = 0;
};

}  // namespace tidepool
