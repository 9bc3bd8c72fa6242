// PollPace says how long the transport's thread sleeps between two looks at MPI, which has no way to wait
// without taking a core.
//
// After progress it looks again at once for 20 us: pieces come one after the other. Then it sleeps for 20 us,
// and longer the longer nothing comes, up to 200 us, so that the sleep is a small part of the wait: a message
// that took 1 ms is seen at most 0.1 ms late. A wait of over 50 ms, such as for a slow node, is looked at
// every 0.5 ms. With nothing in flight only heartbeats are left, which may wait for 20 ms.
#pragma once

#include <algorithm>

namespace tidepool {

class PollPace {
 public:
  static constexpr double spin_seconds = 20e-6;
  static constexpr double sleep_seconds_min = 20e-6, sleep_seconds_max = 200e-6;
  static constexpr double long_wait_seconds = 50e-3, long_sleep_seconds = 500e-6;
  static constexpr double idle_seconds = 20e-3;

  // RETURNS: seconds to sleep; 0: look again at once.
  double next(double now_seconds, bool progress, bool in_flight) {
    if (progress) since_ = now_seconds;
    if (!in_flight) return progress ? 0 : idle_seconds;
    const double waited = now_seconds - since_;
    if (waited < spin_seconds) return 0;
    if (waited > long_wait_seconds) return long_sleep_seconds;
    return std::clamp(waited / 10, sleep_seconds_min, sleep_seconds_max);
  }
  // A new request: what it waits for may come soon.
  void restart(double now_seconds) { since_ = now_seconds; }

 private:
  double since_ = 0;
};

}  // namespace tidepool
