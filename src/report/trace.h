// trace.json: what every lane did when, in Chrome's trace format (opens in Perfetto).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

// A plain value, so that a ring of them can be filled while training without allocating.
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
  Kind moved = Kind::param;  // copy, read, write: what moved
  Bytes bytes{};             // 0: nothing moved
};

struct TraceNames {
  std::vector<std::string> lanes;
  std::vector<std::string> blocks;   // by block; may be empty
  std::vector<std::string> windows;  // by window; may be empty
};

// What happened, or what was predicted: each a process of its own in the viewer.
struct TraceProcess {
  std::string name;
  std::span<const TraceEvent> events;  // in any order
};

// Streams. Times of a process count from its earliest event, so that two lie one above the other.
Result<void> write_trace(const std::string& path, std::span<const TraceProcess>, const TraceNames&);

}  // namespace tidepool
