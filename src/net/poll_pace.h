// PollPace says how long the transport's thread sleeps between two looks at MPI, which has no way to wait
// without taking a core.
//
// MPI moves a message in parts, a few KiB per look over sockets, and tells only of its end. But a look that
// moved something took longer than one that found nothing. So the thread looks again at once after a long
// look, until nothing is left, and then sleeps: over a slow link it wakes up for many parts. After an end it
// looks for another 20 us, because the next message may follow. The sleep is a twentieth of the wait so far,
// at least 50 us and at most 2 ms: waits become 2.5 % longer on average, and a wait for a slow node costs 500
// looks per second. With nothing in flight only heartbeats are left, which may wait for 20 ms.
#pragma once

#include <algorithm>

namespace tidepool {

class PollPace {
 public:
  static constexpr double spin_seconds = 20e-6;
  static constexpr double sleep_seconds_min = 50e-6, sleep_seconds_max = 2e-3;
  static constexpr double part_of_wait = 0.05;
  static constexpr double idle_seconds = 20e-3;

  // `look_seconds`: how long the look took. `ended`: whether something ended or arrived.
  // RETURNS: seconds to sleep; 0: look again at once.
  double next(double now_seconds, double look_seconds, bool ended, bool in_flight) {
    const bool is_long = this->is_long(look_seconds);
    // The first look after a sleep is slow by itself: only a second long look counts.
    if (ended || (is_long && !slept_)) moved_ = now_seconds;
    if (ended) ended_ = now_seconds;
    slept_ = false;
    if (!in_flight) return ended ? 0 : idle_seconds;
    if (ended || is_long || now_seconds - ended_ < spin_seconds) return 0;
    slept_ = true;
    return std::clamp((now_seconds - moved_) * part_of_wait, sleep_seconds_min, sleep_seconds_max);
  }
  // A new request: what it waits for may come soon.
  void restart(double now_seconds) { moved_ = ended_ = now_seconds; }

 private:
  // Compared with the shortest look, which is forgotten slowly: a look gets longer with more requests.
  bool is_long(double look_seconds) {
    shortest_look_ = std::min(shortest_look_ * 1.001, look_seconds);
    return look_seconds > 2 * shortest_look_ + 2e-6;
  }

  double moved_ = 0, ended_ = 0;
  double shortest_look_ = 1;
  bool slept_ = false;
};

}  // namespace tidepool
