// CollectiveWatch is the watchdog of collectives: it aborts them when NCCL or a GPU fails, so that the other
// devices do not wait for ever.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "executor/cuda/collectives.h"
#include "executor/lanes/completion_board.h"

namespace tidepool {

class CollectiveWatch {
 public:
  // Aborts all collectives once the board has an error, or NCCL or a device of the collectives has one.
  // REQUIRES: both arguments outlive the watch.
  static Result<std::unique_ptr<CollectiveWatch>> create(Collectives&, const CompletionBoard&);
  ~CollectiveWatch();
  CollectiveWatch(const CollectiveWatch&) = delete;
  CollectiveWatch& operator=(const CollectiveWatch&) = delete;

 private:
  CollectiveWatch(Collectives& collectives, const CompletionBoard& board)
      : collectives_(collectives), board_(board) {}
  void loop();

  Collectives& collectives_;
  const CompletionBoard& board_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tidepool
