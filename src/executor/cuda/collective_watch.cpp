#include "executor/cuda/collective_watch.h"

#include <pthread.h>

#include <chrono>

namespace tidepool {
namespace {

// A run that has failed waits this much longer; a healthy one does not notice.
constexpr std::chrono::milliseconds period{20};

}  // namespace

CollectiveWatch::CollectiveWatch(Collectives& collectives, const CompletionBoard& board)
    : collectives_(collectives), board_(board), thread_([this] { loop(); }) {
  pthread_setname_np(thread_.native_handle(), "tp-comm-watch");
}

CollectiveWatch::~CollectiveWatch() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

void CollectiveWatch::loop() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, period, [&] { return stop_; })) {
    if (board_.failed()) collectives_.abort();
    if (!collectives_.check()) return;
  }
}

}  // namespace tidepool
