// PollPace says how long the transport's thread sleeps between two looks at MPI, which has no way to wait
// without taking a core.
//
// MPI moves a message in parts, a few KiB per look over sockets, and tells only of its end. But a look that
// moved something took longer than one that found nothing. So the thread looks again at once after a long
// look, until nothing is left: over a slow link it wakes up for many parts. After an end it looks for another
// 20 us, because the next message may follow.
//
// Then it sleeps. While a message is known to be on its way, that is 50 to 200 us, which a socket's buffers
// bridge: 200 us at 10 Gb/s are 250 KB. Otherwise it is a twentieth of the wait so far, up to 2 ms: waits
// become 2.5 % longer on average, and a wait for a slow node costs 500 looks per second. With nothing in
// flight only heartbeats are left, which may wait for 20 ms.
#pragma once

#include <algorithm>

namespace tidepool {

class PollPace {
 public:
  static constexpr double spin_seconds = 20e-6;
  static constexpr double sleep_seconds_min = 50e-6, sleep_seconds_max = 2e-3;
  static constexpr double moving_seconds_max = 200e-6;
  static constexpr double part_of_wait = 0.05;
  static constexpr double idle_seconds = 20e-3;

  struct Look {
    double seconds = 0;      // that it took
    bool ended = false;      // something ended or arrived
    bool in_flight = false;  // something is still awaited
    bool moving = false;     // a message is on its way
  };

  // RETURNS: seconds to sleep; 0: look again at once.
  double next(double now_seconds, const Look& look) {
    if (look.ended) ended_ = now_seconds;
    if (!look.in_flight) return look.ended ? 0 : idle_seconds;
    // The first look after a sleep is slow by itself, so it tells nothing.
    const bool again = look.moving && (slept_ || is_long(look.seconds));
    slept_ = false;
    const double waited = now_seconds - ended_;
    if (again || waited < spin_seconds) return 0;
    slept_ = true;
    return std::clamp(waited * part_of_wait, sleep_seconds_min,
                      look.moving ? moving_seconds_max : sleep_seconds_max);
  }
  // A new request: what it waits for may come soon.
  void restart(double now_seconds) { ended_ = now_seconds; }

 private:
  // Compared with the shortest look, which is forgotten slowly: a look gets longer with more requests.
  bool is_long(double look_seconds) {
    shortest_look_ = std::min(shortest_look_ * 1.001, look_seconds);
    return look_seconds > 1.5 * shortest_look_ + 1e-6;
  }

  double ended_ = 0;
  double shortest_look_ = 1;
  bool slept_ = false;
};

}  // namespace tidepool
