#include "executor/cuda/collective_watch.h"

#include <chrono>

#include "base/process/start_thread.h"

namespace tidepool {
namespace {

// Polling period. A failed run is stopped at most this much later; a healthy run does not notice.
constexpr std::chrono::milliseconds period{20};

}  // namespace

Result<std::unique_ptr<CollectiveWatch>> CollectiveWatch::create(Collectives& collectives,
                                                                 const CompletionBoard& board) {
  std::unique_ptr<CollectiveWatch> watch(new CollectiveWatch(collectives, board));
  TRY_ASSIGN(watch->thread_, start_thread("tp-comm-watch", [raw = watch.get()] { raw->loop(); }));
  return watch;
}

CollectiveWatch::~CollectiveWatch() {
  if (!thread_.joinable()) return;
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
