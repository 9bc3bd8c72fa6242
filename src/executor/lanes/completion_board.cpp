#include "executor/lanes/completion_board.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/check.h"

namespace tidepool {

CompletionBoard::CompletionBoard(u64 sequences_max, u32 ops_max) {
  done_.resize(std::bit_ceil(2 * std::max<u64>(sequences_max, 1)));
  posted_.reserve(ops_max);
  taken_.reserve(ops_max);
}

void CompletionBoard::post(u64 sequence, Nanos started, Nanos finished) {
  const std::scoped_lock lock(mutex_);
  put({.sequence = sequence, .started = started, .finished = finished});
}

void CompletionBoard::post_error(u64 sequence, Nanos started, Nanos finished, Error error) {
  const std::scoped_lock lock(mutex_);
  errors_.push_back(std::move(error));
  failed_ = true;
  put({.sequence = sequence, .started = started, .finished = finished, .error = &errors_.back()});
}

void CompletionBoard::put(const Completion& completion) {
  CHECK(posted_.size() < posted_.capacity(), posted_.size());
  done_[completion.sequence & (done_.size() - 1)] = completion.sequence + 1;
  posted_.push_back(completion);
  engine_.notify_one();
  if (lanes_waiting_ > 0) lanes_.notify_all();
}

bool CompletionBoard::failed() const {
  const std::scoped_lock lock(mutex_);
  return failed_;
}

void CompletionBoard::await(std::span<const u64> sequences) {
  if (sequences.empty()) return;
  std::unique_lock lock(mutex_);
  ++lanes_waiting_;
  lanes_.wait(lock, [&] {
    return std::all_of(sequences.begin(), sequences.end(),
                       [&](u64 sequence) { return done_[sequence & (done_.size() - 1)] == sequence + 1; });
  });
  --lanes_waiting_;
}

std::span<const Completion> CompletionBoard::take(Nanos patience) {
  std::unique_lock lock(mutex_);
  taken_.clear();
  engine_.wait_for(lock, std::chrono::nanoseconds(patience.value), [&] { return !posted_.empty(); });
  std::swap(posted_, taken_);
  return taken_;
}

}  // namespace tidepool
