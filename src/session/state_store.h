// StateStore reads and writes the training state at rest, tensor range by tensor range, over chunks in their
// homes.
#pragma once

#include <array>
#include <vector>

#include "executor/shared/state_at_rest.h"
#include "fit/rest_staging.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Chunks whose home the host can reach are used in place. Other chunks are staged: in 16 bits, a chunk of
// `master` or `master_low` beside a chunk of parameters. If there is room for several, one is filled while
// those before it are on their way to disk.
// REQUIRES: at rest.
// THREADS: one.
class StateStore final : public StateReader, public StateWriter {
 public:
  // By staging_slot(). Each buffer is as large as staging_bytes() says; at least one per slot, unless that
  // size is 0.
  using Staging = std::array<std::vector<std::span<std::byte>>, 2>;
  static constexpr u32 staged_max = writes_at_rest_max / 2;  // per slot

  StateStore(const Plan&, const ModelGraph&, StateAtRest&, const Staging& staging);

  Result<void> read(u32 window, Kind, u64 element_begin, std::span<std::byte> out) override;
  // Drops kinds for which the plan has no chunks, because the model is not trained.
  Result<void> write(u32 window, Kind, u64 element_begin, std::span<const std::byte> bytes) override;
  // Writes the staged chunks, and clears every chunk that was never written.
  Result<void> finish() override;

  // Trained chunks have their content already: the next finish() does not clear them.
  void keep_trained();

  // Forgets the staged chunks: the state has changed since.
  void invalidate();

 private:
  struct Staged {
    std::span<std::byte> memory;
    ChunkId on_its_way{none};  // chunk that is being written to its home
  };
  struct Slot {
    ChunkId chunk{none};
    bool dirty = false;           // staged, and not yet written to its home
    u64 filled = 0;               // bytes written so far, from the chunk's start
    std::span<std::byte> memory;  // the chunk's home, or a buffer of `staged`
    std::vector<Staged> staged;
    u64 turn = 0;
  };
  struct Piece {  // of a range, within one chunk
    ChunkId chunk{};
    u64 offset = 0, bytes = 0;
  };

  Slot& slot_of(Kind kind) { return slots_[staging_slot(plan_.state_slots, kind)]; }
  // RETURNS: true if the content must be copied between the slot and the chunk's home.
  Result<bool> put_into(Slot&, ChunkId);
  ChunkId first_chunk(u32 window, Kind kind) const;
  Piece piece_at(u32 window, Kind kind, u64 element, u64 bytes_left) const;
  std::span<std::byte> content(const Slot& slot) const;
  void fill_zeros(Slot& slot, u64 up_to);
  Result<void> flush(Slot&);
  Result<void> arrived(Staged&);

  const Plan& plan_;
  StateAtRest& homes_;
  std::array<Slot, 2> slots_;
  std::vector<std::array<ChunkId, kind_count>> first_;  // by window
  std::vector<u32> cuts_;                               // by window
  std::vector<bool> written_;                           // by chunk
};

}  // namespace tidepool
