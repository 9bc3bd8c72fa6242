// RunDurability holds the durability of one run. Whoever learns of an event tells it here, and does what the
// table answers: nobody else keeps flags of commits, saves, replays or votes.
#pragma once

#include "durability/durability.h"

namespace tidepool {

// THREADS: the engine's thread.
class RunDurability {
 public:
  void begin(const Durability& state) { state_ = state; }
  const Durability& state() const { return state_; }
  // REQUIRES: the event can happen in this state. Writes the transition to the log, at level debug.
  Action tell(const Happened&);
  Action tell(Event event, u64 value = 0) { return tell(Happened{.event = event, .value = value}); }

 private:
  Durability state_;
};

}  // namespace tidepool
