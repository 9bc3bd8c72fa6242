// An executor that holds a training state in real memory: what a run asks of it beside the engine.
#pragma once

#include <array>
#include <span>

#include "engine/executor.h"
#include "executor/shared/step_source.h"
#include "io/disk.h"

namespace tidepool {

// The next evaluation's head also gives the logits of one row.
struct LogitsRequest {
  u32 micro_batch = 0;
  u32 row = 0;              // of [B * T]
  std::span<float> logits;  // [V], in host memory; empty: none wanted
};

inline constexpr u32 writes_at_rest_max = 16;

struct RawTransfer {
  DiskOp op{};
  u64 offset = 0;               // on disk
  std::span<std::byte> memory;  // in the host arena
};

// The engine's thread calls everything here.
class TrainingExecutor : public Executor {
 public:
  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  virtual StepResult result(u64 step) const = 0;
  // Useful bytes so far, by what was really copied, read and written; the same between devices.
  virtual std::array<Bytes, link_count> moved() const = 0;
  virtual Bytes moved_between_devices() const = 0;
  // Disk transfers, those at rest included, that took more than one go.
  virtual u64 io_retries() const = 0;
  // Something was handed over and has not come back: the destructor would wait for it.
  virtual bool busy() const = 0;
  // Highest frame end that an op used.
  virtual Bytes high_water(Tier) const = 0;

  // ---- at rest (no op in flight)

  // How the next step's loss is scaled; until this is called, by 1.
  virtual void set_loss_scale(const LossScale&) = 0;

  // The whole content of a persistent chunk in its home. Disk: checked against its checksum.
  virtual Result<void> read_home(ChunkId, std::span<std::byte> out) = 0;
  // A home on disk may be written while the caller goes on: `content` must stay as it is until
  // end_write_home. Of up to writes_at_rest_max chunks at a time.
  virtual Result<void> begin_write_home(ChunkId, std::span<const std::byte> content) = 0;
  virtual Result<void> end_write_home(ChunkId) = 0;
  Result<void> write_home(ChunkId id, std::span<const std::byte> content) {
    TRY(begin_write_home(id, content));
    return end_write_home(id);
  }
  // Zeros, which are not written to a disk where its file system keeps note of them.
  virtual Result<void> clear_home(ChunkId) = 0;
  // The home itself, to read and write; empty where the host cannot reach it (disk, a GPU's memory).
  virtual std::span<std::byte> home_memory(ChunkId) const = 0;
  // Runs one forward, backward or gradient op to its end, on whatever its frames hold: to time it. Error: as
  // of a step's op.
  virtual Result<void> run_at_rest(const Segment&, OpId) = 0;
  // Frames between disk and memory with a full queue, unchecked: to time the disk. REQUIRES: a disk.
  virtual Result<void> transfer_raw(std::span<const RawTransfer>) = 0;
  // What evaluation segments have summed since the last call.
  virtual EvalResult take_eval() = 0;
  // The next evaluations also write the logits of one row; an empty request ends that.
  virtual void request_logits(const LogitsRequest&) = 0;
  virtual Disk* disk() = 0;  // null: none
};

}  // namespace tidepool
