// The training state at rest, tensor range by tensor range, over chunks in their homes.
#pragma once

#include <array>
#include <vector>

#include "checkpoint/state_stream.h"
#include "executor/training_executor.h"
#include "tidepool/model_graph.h"
#include "trainer/rest_staging.h"

namespace tidepool {

// Chunks at home in memory that the host reaches are used where they lie. Of others it stages one, and for 16 bits the chunk
// of `master` or `master_low` beside it. At rest only; one thread.
class StateStore final : public StateReader, public StateWriter {
 public:
  using Staging = std::array<std::span<std::byte>, 2>;
  // `staging`: at least staging_bytes() each.
  StateStore(const Plan&, const ModelGraph&, TrainingExecutor&, const Staging& staging);
  // The largest chunk at home where the host does not reach it: of masters (second) and of the other kinds (first).
  static std::array<Bytes, 2> staging_bytes(const Plan&, DeviceMemory = DeviceMemory::of_host);

  Result<void> read(u32 window, Kind, u64 element_begin, std::span<std::byte> out) override;
  // Kinds that the plan has no chunks for, of a model that is not trained, are dropped.
  Result<void> write(u32 window, Kind, u64 element_begin, std::span<const std::byte> bytes) override;
  // Writes what is staged, and zeros into every chunk that was never written.
  Result<void> finish() override;

  // Forgets what is staged: the state has changed since.
  void invalidate();

 private:
  struct Slot {
    ChunkId chunk{none};
    bool dirty = false;            // and staged
    std::span<std::byte> memory;   // its home, or `staging`
    std::span<std::byte> staging;
  };
  struct Piece {  // of a range, within one chunk
    ChunkId chunk{};
    u64 offset = 0, bytes = 0;
  };

  static u32 slot_number(Kind kind) { return kind == Kind::master || kind == Kind::master_low ? 1 : 0; }
  Slot& slot_of(Kind kind) { return slots_[slot_number(kind)]; }
  // True if its content still has to come from disk (or go there).
  bool put_into(Slot&, ChunkId);
  ChunkId first_chunk(u32 window, Kind kind) const;
  Piece piece_at(u32 window, Kind kind, u64 element, u64 bytes_left) const;
  std::span<std::byte> content(const Slot& slot) const;
  Result<void> flush(Slot&);

  const Plan& plan_;
  TrainingExecutor& executor_;
  std::array<Slot, 2> slots_;
  std::vector<std::array<ChunkId, kind_count>> first_;  // by window
  std::vector<bool> written_;                           // by chunk
};

}  // namespace tidepool
