#include "machine/wake_up.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/median.h"
#include "base/process/start_thread.h"
#include "base/types.h"

namespace tidepool {
namespace {

constexpr u32 round_trips = 200;

// Turn lets two threads alternate.
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

Result<double> wake_up_seconds() {
  Turn turn;
  TRY_ASSIGN(std::thread other, start_thread("tp-wake-up", [&] {
               for (u32 i = 0; i < round_trips; ++i) turn.pass(1, 0);
             }));
  std::vector<double> seconds;
  for (u32 i = 0; i < round_trips; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    turn.pass(0, 1);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    // a round trip is two wake-ups; the first one waits for nobody
    if (i > 0) seconds.push_back(took.count() / 2);
  }
  other.join();
  return median(seconds);
}

}  // namespace tidepool
