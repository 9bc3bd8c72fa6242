// write_trace() writes trace.json: the ops of every lane over time, in Chrome's trace format (opens in
// Perfetto).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

// TraceEvent is one op that ran. It is a plain value, so that a ring buffer can be filled during training
// without allocation.
struct TraceEvent {
  OpKind kind{};
  u32 lane = 0;  // index into the lanes' names
  Nanos started{};
  Nanos finished{};
  u64 step = 0;
  u32 block = none;
  u32 micro_batch = none;
  u32 window = none;
  u32 cut = none;
  Kind moved = Kind::param;  // of copy, read and write: the kind that moved
  Bytes bytes{};             // 0: nothing moved
};

struct TraceNames {
  std::vector<std::string> lanes;
  std::vector<std::string> blocks;   // names by block; may be empty
  std::vector<std::string> windows;  // names by window; may be empty
};

// TraceProcess holds either the measured or the predicted events. Each is a process of its own in the viewer.
struct TraceProcess {
  std::string name;
  std::span<const TraceEvent> events;  // in any order
};

// Writes as a stream, without holding the whole text. Times of a process count from its earliest event, so
// that the viewer shows two processes aligned, one above the other.
Result<void> write_trace(const std::string& path, std::span<const TraceProcess>, const TraceNames&);

}  // namespace tidepool
