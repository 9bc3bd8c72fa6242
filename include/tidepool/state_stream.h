// How checkpoints reach the training state, wherever it rests. The trainer implements both over chunks
// in their homes; tests over plain vectors.
#pragma once

#include <span>

#include "base/result.h"
#include "tidepool/chunk.h"

namespace tidepool {

// Elements are counted from the window's start; bytes are in the kind's stored precision
// (element_bytes). Only kinds for which is_persistent() holds. A range lies inside one tensor and never
// touches padding.
//
// Order, so that an implementation that keeps one chunk staged per kind moves every chunk once: one kind
// after another, windows ascending, ranges ascending and without overlap. Only `param` and its
// master (`master` or `master_low`) go together: the same range of one, then of the other.
class StateReader {
 public:
  virtual ~StateReader() = default;
  virtual Result<void> read(u32 window, Kind, u64 element_begin, std::span<std::byte> out) = 0;
};

class StateWriter {
 public:
  virtual ~StateWriter() = default;
  // What is never written (padding, or momentum when only weights are loaded) is zero.
  virtual Result<void> write(u32 window, Kind, u64 element_begin, std::span<const std::byte> bytes) = 0;
  // After the last write: staged chunks must go home.
  virtual Result<void> finish() = 0;
};

// Of a state that comes from several places: finish() is left to whoever writes the last of it.
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
