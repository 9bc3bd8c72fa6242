// Writes trace.json: what each lane did at what time, in Chrome's trace format (opens in Perfetto).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

// A plain value, so that a ring of events can be filled while training without allocating.
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
  StateSlots state_slots;            // names of what moves
};

// Measured or predicted events. Each is a process of its own in the viewer.
struct TraceProcess {
  std::string name;
  u64 count = 0;
  // RETURNS: event i of `count`, in any order. Asked for twice. A function, because a list of all events
  // would take more memory than a small run.
  std::function<TraceEvent(u64 i)> event;
};

// Writes the file as a stream. Times count from the earliest event of each process, so that processes are
// aligned.
Result<void> write_trace(const std::string& path, std::span<const TraceProcess>, const TraceNames&);

}  // namespace tidepool
