#include "executor/lanes/lane_thread.h"

#include <algorithm>

#include "base/check.h"
#include "base/process/start_thread.h"

namespace tidepool {

std::string lane_thread_name(LaneId lane) {
  const std::string plain = "tp-" + std::string(name(lane.kind));
  return lane.device == 0 || lane.device == host_device ? plain : plain + std::to_string(lane.device);
}

Result<std::unique_ptr<LaneThread>> LaneThread::create(const std::string& name, LaneWork& work,
                                                       const ExecutorClock& clock, CompletionBoard& board) {
  std::unique_ptr<LaneThread> lane(new LaneThread(work, clock, board));
  TRY_ASSIGN(lane->thread_, start_thread(name, [raw = lane.get()] { raw->loop(); }));
  return lane;
}

LaneThread::~LaneThread() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void LaneThread::push(const Issue& issue, std::span<const u64> in_flight) {
  CHECK(in_flight.size() <= in_flight_max, issue.sequence, in_flight.size());
  {
    const std::scoped_lock lock(mutex_);
    CHECK(head_ - tail_ < lane_depth, head_, tail_);
    Entry& entry = ring_[head_++ % lane_depth];
    entry.issue = issue;
    entry.in_flight_count = static_cast<u32>(in_flight.size());
    std::copy(in_flight.begin(), in_flight.end(), entry.in_flight.begin());
  }
  pushed_.notify_one();
}

bool LaneThread::pop(Entry& entry) {
  std::unique_lock lock(mutex_);
  pushed_.wait(lock, [&] { return head_ != tail_ || stop_; });
  if (head_ == tail_) return false;
  entry = ring_[tail_++ % lane_depth];
  return true;
}

void LaneThread::loop() {
  Entry entry;
  while (pop(entry)) run(entry);
}

void LaneThread::run(const Entry& entry) {
  board_.await(std::span(entry.in_flight).first(entry.in_flight_count));
  const Nanos started = clock_.now();
  Result<void> result = board_.failed() ? Result<void>() : work_.run(entry.issue);
  const Nanos finished = clock_.now();
  if (result) {
    board_.post(entry.issue.sequence, started, finished);
  } else {
    board_.post_error(entry.issue.sequence, started, finished, std::move(result).error());
  }
}

}  // namespace tidepool
