// StateAtRest accesses the training state at rest, chunk by chunk in their homes, for checkpoints and
// weights. TimedAtRest times parts of a step there.
#pragma once

#include <span>

#include "base/result.h"
#include "engine/executor.h"
#include "io/disk.h"
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

// ---- single ops and transfers, to time them for predictions

struct RawTransfer {
  DiskOp op{};
  ChunkId chunk{};              // at home on disk: the transfer goes to where its next write would go
  std::span<std::byte> memory;  // in the host arena
};

// Both functions block.
// REQUIRES: at rest (no op in flight).
// THREADS: the engine's thread.
class TimedAtRest {
 public:
  virtual ~TimedAtRest() = default;

  // Runs one forward, backward, gradient or orthogonalize op `times` times, one run after the other as a
  // step's ops follow each other, and waits for the end. Takes any data in the op's frames. Errors: as for a
  // step's op.
  virtual Result<void> run_at_rest(const Segment&, OpId, u32 times) = 0;
  // Transfers frames between disk and memory with a full queue, unchecked.
  // REQUIRES: a disk.
  virtual Result<void> transfer_raw(std::span<const RawTransfer>) = 0;
};

}  // namespace tidepool
