// TimedAtRest runs single ops and transfers at rest, to time them for predictions.
#pragma once

#include <span>

#include "engine/executor.h"
#include "io/disk.h"

namespace tidepool {

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
