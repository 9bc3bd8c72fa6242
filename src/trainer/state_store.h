// The training state at rest, tensor range by tensor range, over chunks in their homes.
#pragma once

#include <array>
#include <vector>

#include "checkpoint/state_stream.h"
#include "executor/cpu/cpu_executor.h"

namespace tidepool {

// Stages one chunk, and for bf16 the chunk of `master_low` beside it. At rest only; one thread.
class StateStore final : public StateReader, public StateWriter {
 public:
  // `staging`: two of the largest persistent chunks.
  StateStore(const Plan&, const ModelGraph&, CpuExecutor&, std::span<std::byte> staging);
  static Bytes staging_bytes(const Plan&);

  Result<void> read(u32 window, Kind, u64 element_begin, std::span<std::byte> out) override;
  Result<void> write(u32 window, Kind, u64 element_begin, std::span<const std::byte> bytes) override;
  // Writes what is staged, and zeros into every chunk that was never written.
  Result<void> finish() override;

  // Forgets what is staged: the state has changed since.
  void invalidate();

 private:
  struct Slot {
    ChunkId chunk{none};
    bool dirty = false;
    std::span<std::byte> memory;
  };
  struct Piece {  // of a range, within one chunk
    ChunkId chunk{};
    u64 offset = 0, bytes = 0;
  };

  Slot& slot_of(Kind kind) { return slots_[kind == Kind::master_low ? 1 : 0]; }
  ChunkId first_chunk(u32 window, Kind kind) const;
  Piece piece_at(u32 window, Kind kind, u64 element, u64 bytes_left) const;
  std::span<std::byte> content(const Slot& slot) const;
  Result<void> flush(Slot&);

  const Plan& plan_;
  CpuExecutor& executor_;
  std::array<Slot, 2> slots_;
  std::vector<std::array<ChunkId, kind_count>> first_;  // by window
  std::vector<bool> written_;                           // by chunk
};

}  // namespace tidepool
