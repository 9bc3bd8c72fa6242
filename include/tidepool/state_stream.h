// StateReader and StateWriter give checkpoints access to the training state, wherever its homes are.
#pragma once

#include <span>

#include "base/result.h"
#include "tidepool/chunk.h"

namespace tidepool {

// Elements are counted from the window's start along the kind's axis (slot_range()); bytes are as
// StateSlots::bytes() says.
// REQUIRES: is_persistent(kind). A range lies inside one tensor and never touches padding.
// REQUIRES: calls come kind after kind, windows ascending, ranges ascending and without overlap. Only `param`
// and its master (StateSlots::master()) go together: the same range of one, then of the other.
// So an implementation that keeps one chunk staged per kind moves every chunk once. Reads may also go back;
// then chunks are staged again.
class StateReader {
 public:
  virtual ~StateReader() = default;
  virtual Result<void> read(u32 window, Kind, u64 element_begin, std::span<std::byte> out) = 0;
};

class StateWriter {
 public:
  virtual ~StateWriter() = default;
  // Ranges that are never written are zero: padding, or the optimizer's slots when only weights are loaded.
  virtual Result<void> write(u32 window, Kind, u64 element_begin, std::span<const std::byte> bytes) = 0;
  // Moves staged chunks to their homes.
  // REQUIRES: the last write was made.
  virtual Result<void> finish() = 0;
};

// WriteMore passes writes on and ignores finish(). For a state with several sources: the caller that writes
// the last part calls finish() on the target itself.
class WriteMore final : public StateWriter {
 public:
  explicit WriteMore(StateWriter& to) : to_(to) {}
  Result<void> write(u32 window, Kind kind, u64 element_begin, std::span<const std::byte> bytes) override {
    return to_.write(window, kind, element_begin, bytes);
  }
  Result<void> finish() override { return {}; }

 private:
  StateWriter& to_;
};

}  // namespace tidepool
