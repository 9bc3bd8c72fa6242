#include "probe/wake_up.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "probe/timing.h"
#include "tidepool/median.h"

namespace tidepool {
namespace {

constexpr u32 round_trips = 200;

// Two threads hand a turn to each other.
class Turn {
 public:
  void pass(u32 from, u32 to) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == from; });
    turn_ = to;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  u32 turn_ = 0;
};

}  // namespace

double wake_up_seconds() {
  Turn turn;
  std::thread other([&] {
    for (u32 i = 0; i < round_trips; ++i) turn.pass(1, 0);
  });
  std::vector<double> seconds;
  for (u32 i = 0; i < round_trips; ++i) {
    const double took = seconds_of([&] { turn.pass(0, 1); });
    if (i > 0) seconds.push_back(took / 2);  // there and back; the first waits for nobody
  }
  other.join();
  return median(seconds);
}

}  // namespace tidepool
