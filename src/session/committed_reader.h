// CommittedReader reads the state that a commit counts on, from the swap file of a run that has ended.
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "executor/shared/commit_lane.h"
#include "io/state_journal.h"
#include "session/state_table.h"
#include "tidepool/core_pool.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Verifies each chunk by its checksum, and holds two of them. Reads past the page cache, where the file
// system allows it: a run may write other parts of the file meanwhile. THREADS: one.
class CommittedReader final : public StateReader {
 public:
  // The graph's windows may have other tensors than those of the table, and the optimizer's state other
  // formats, to which it is converted. REQUIRES: difference_of_models() is empty; graph and pool outlive the
  // reader. Errors: io if the file cannot be opened.
  static Result<std::unique_ptr<CommittedReader>> open(FoundState, StateTable, const ModelGraph&, CorePool&);

  // Keeps what it reads from being overwritten while it exists. REQUIRES: the hold is of its commit.
  void keep(CommitHold hold) { hold_.emplace(std::move(hold)); }

  Result<void> read(u32 window, Kind, u64 element_begin, std::span<std::byte> out) override;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Held {
    u32 mark = none;
    std::unique_ptr<std::byte[], Free> memory;  // page-aligned, as large as any chunk of the table
    u64 bytes = 0;
  };
  struct Source {
    u32 row = 0;                                         // of the table
    std::array<SlotRange, slot_axis_count> here, there;  // by axis: the tensor in its window of the graph,
                                                         // and of the table
  };
  CommittedReader(FoundState found, StateTable table, const ModelGraph& graph, CorePool& pool)
      : found_(std::move(found)), table_(std::move(table)), slots_(graph.state_slots), pool_(pool) {}
  Kind kind_in_table(Kind, u8 rule) const;
  // Elements from `begin` on, of a window of the table and in its formats.
  Result<void> read_table(const StateTable::OfWindow&, Kind, u64 begin, std::span<std::byte> out);
  Result<void> hold(Held&, const StateTable::OfWindow&, Kind, const StateTable::Cut&);

  std::optional<CommitHold> hold_;
  const FoundState found_;
  const StateTable table_;
  const StateSlots slots_;  // of the graph
  CorePool& pool_;
  Fd fd_;
  std::vector<std::vector<Source>> sources_;  // by window of the graph, ascending
  std::array<Held, 2> held_;
  std::vector<u64> hashes_;
  std::vector<std::byte> other_format_;
};

// Copies the whole trained state, and finishes the writer.
Result<void> copy_state(const ModelGraph&, StateReader&, StateWriter&);

}  // namespace tidepool
