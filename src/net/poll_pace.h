// PollPace says how long the transport's thread sleeps between two looks at MPI, which has no way to wait
// without taking a core.
//
// After progress it looks again at once for 20 us: pieces come one after the other. Then it sleeps for a
// twentieth of the wait so far, at least 20 us and at most 2 ms: waits become 2.5 % longer on average, and a
// wait for a slow node costs 500 looks per second. With nothing in flight only heartbeats are left, which may
// wait for 20 ms.
#pragma once

#include <algorithm>

namespace tidepool {

class PollPace {
 public:
  static constexpr double spin_seconds = 20e-6;
  static constexpr double sleep_seconds_min = 20e-6, sleep_seconds_max = 2e-3;
  static constexpr double part_of_wait = 0.05;
  static constexpr double idle_seconds = 20e-3;

  // RETURNS: seconds to sleep; 0: look again at once.
  double next(double now_seconds, bool progress, bool in_flight) {
    if (progress) since_ = now_seconds;
    if (!in_flight) return progress ? 0 : idle_seconds;
    const double waited = now_seconds - since_;
    if (waited < spin_seconds) return 0;
    return std::clamp(waited * part_of_wait, sleep_seconds_min, sleep_seconds_max);
  }
  // A new request: what it waits for may come soon.
  void restart(double now_seconds) { since_ = now_seconds; }

 private:
  double since_ = 0;
};

}  // namespace tidepool
