// Executor is the one seam between the engine and the code that does the work.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

// Most ops that an op may be told to follow: the last unfinished op of three lanes of each device, and of
// comm.
inline constexpr u32 in_flight_max = 3 * devices_max + 1;

// Issue is one op of one run of a segment. `sequence` numbers all ops of a run without gaps, so an executor
// can keep its state in rings.
struct Issue {
  const Segment* segment = nullptr;
  OpId op{};
  u64 sequence = 0;
  u64 step = 0;  // the optimizer step to which the op belongs

  const Op& get() const { return segment->ops[index(op)]; }
};

struct Completion {
  u64 sequence = 0;
  Nanos started{};
  Nanos finished{};
  const Error* error = nullptr;  // valid until the next wait(); the run cannot continue
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Number of further ops that the lane accepts now. Back-pressure.
  virtual u32 slots_free(LaneId) const = 0;

  // Starts an op, or queues it on its lane. Never blocks. `in_flight`: sequences of ops on devices' lanes, at
  // most in_flight_max, that must complete first; the executor orders them. Every other dependency has
  // completed.
  // REQUIRES: slots_free(lane) > 0.
  virtual void submit(const Issue&, std::span<const u64> in_flight) = 0;

  // Blocks until something completes (or advances virtual time).
  // RETURNS: the completions. Empty only after a timeout of about a second, so that the engine's watchdog can
  // look.
  virtual std::span<const Completion> wait() = 0;

  virtual Nanos now() const = 0;
};

}  // namespace tidepool
