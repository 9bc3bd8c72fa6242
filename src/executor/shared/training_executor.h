// TrainingExecutor holds a training state in real memory: requests of a run beyond those of the engine.
#pragma once

#include <array>
#include <span>

#include "engine/executor.h"
#include "executor/shared/step_source.h"
#include "io/disk.h"

namespace tidepool {

// Asks the next evaluation's head for the logits of one row.
struct LogitsRequest {
  u32 micro_batch = 0;
  u32 row = 0;              // row of [B * T]
  std::span<float> logits;  // [V], in host memory; empty: no request
};

inline constexpr u32 writes_at_rest_max = 16;

struct RawTransfer {
  DiskOp op{};
  u64 offset = 0;               // offset on disk
  std::span<std::byte> memory;  // in the host arena
};

// THREADS: the engine's thread calls everything here.
class TrainingExecutor : public Executor {
 public:
  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  virtual StepResult result(u64 step) const = 0;
  // Useful bytes really copied, read and written so far; the second function counts bytes between devices.
  virtual std::array<Bytes, link_count> moved() const = 0;
  virtual Bytes moved_between_devices() const = 0;
  // Number of extra tries of disk transfers, those at rest included.
  virtual u64 io_retries() const = 0;
  // RETURNS: true if submitted work has not come back; the destructor would wait for it.
  virtual bool busy() const = 0;
  // Highest frame end that an op used.
  virtual Bytes high_water(Tier) const = 0;

  // ---- at rest (no op in flight)

  // Sets the loss scale of the next step; the initial scale is 1.
  virtual void set_loss_scale(const LossScale&) = 0;

  // Reads the whole content of a persistent chunk from its home. Content from disk is verified by its
  // checksum.
  virtual Result<void> read_home(ChunkId, std::span<std::byte> out) = 0;
  // Begins a write; a home on disk may be written while the caller continues.
  // REQUIRES: `content` stays unchanged until end_write_home; at most writes_at_rest_max chunks at a time.
  virtual Result<void> begin_write_home(ChunkId, std::span<const std::byte> content) = 0;
  virtual Result<void> end_write_home(ChunkId) = 0;
  Result<void> write_home(ChunkId id, std::span<const std::byte> content) {
    TRY(begin_write_home(id, content));
    return end_write_home(id);
  }
  // Sets the home to zeros, without writing them to a disk if its file system can mark ranges as zero.
  virtual Result<void> clear_home(ChunkId) = 0;
  // RETURNS: the home itself, to read and write; empty if the host cannot reach it (disk, a GPU's memory).
  virtual std::span<std::byte> home_memory(ChunkId) const = 0;
  // Runs one forward, backward or gradient op to its end, on any data in its frames, to time the op.
  // Errors: as for a step's op.
  virtual Result<void> run_at_rest(const Segment&, OpId) = 0;
  // Transfers frames between disk and memory with a full queue, unchecked, to time the disk.
  // REQUIRES: a disk.
  virtual Result<void> transfer_raw(std::span<const RawTransfer>) = 0;
  // Takes the sums of evaluation segments since the last call.
  virtual EvalResult take_eval() = 0;
  // Makes the next evaluations also write the logits of one row; an empty request ends that.
  virtual void request_logits(const LogitsRequest&) = 0;
  virtual Disk* disk() = 0;  // null: no disk
};

}  // namespace tidepool
