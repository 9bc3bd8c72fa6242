#include "executor/cuda/stream_lane.h"

#include <pthread.h>

#include "kernels/cuda/cuda_error.h"
#include "tidepool/check.h"

namespace tidepool {

Result<std::unique_ptr<StreamLane>> StreamLane::create(const StreamLaneParts& parts) {
  std::unique_ptr<StreamLane> lane(new StreamLane(parts));
  TRY(lane->create_events());
  lane->thread_ = std::thread([raw = lane.get()] { raw->loop(); });
  pthread_setname_np(lane->thread_.native_handle(), parts.name.c_str());
  return lane;
}

// Blocking: a thread that waits for one sleeps.
Result<void> StreamLane::create_events() {
  TRY_CUDA(cudaSetDevice(parts_.device), "using cuda:" + std::to_string(parts_.device));
  for (Events& events : events_) {
    TRY_CUDA(cudaEventCreateWithFlags(&events.begin, cudaEventBlockingSync), "making an event");
    TRY_CUDA(cudaEventCreateWithFlags(&events.end, cudaEventBlockingSync), "making an event");
  }
  return {};
}

StreamLane::~StreamLane() {
  if (thread_.joinable()) {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    pushed_.notify_one();
    thread_.join();
  }
  for (const Events& events : events_)
    for (const cudaEvent_t event : {events.begin, events.end})
      if (event != nullptr) cudaEventDestroy(event);
}

cudaEvent_t StreamLane::submit(const Issue& issue, std::span<const cudaEvent_t> after) {
  const Entry entry{.issue = issue,
                    .slot = static_cast<u32>(head_ % lane_depth)};  // only this thread writes head_
  const cudaEvent_t end = events_[entry.slot].end;
  const Nanos now = parts_.clock.now();
  if (parts_.board.failed()) {
    parts_.board.post(issue.sequence, now, now);
  } else if (const Result<void> handed = hand_over(entry, after); !handed) {
    parts_.board.post_error(issue.sequence, now, now, handed.error());
  } else {
    {
      const std::scoped_lock lock(mutex_);
      CHECK(head_ - tail_ < lane_depth, head_, tail_);
      ring_[head_++ % lane_depth] = entry;
    }
    pushed_.notify_one();
  }
  return end;
}

Result<void> enqueue_named(StreamWork& work, const Issue& issue, u32 slot, cudaStream_t stream) {
  cudaGetLastError();  // of others
  const Result<void> enqueued = work.enqueue(issue, slot, stream);
  TRY_CUDA(cudaGetLastError(), work.describe(issue));  // of its launches and copies
  if (!enqueued) return Error{enqueued.error().kind, work.describe(issue) + ": " + enqueued.error().message};
  return {};
}

Result<void> StreamLane::hand_over(const Entry& entry, std::span<const cudaEvent_t> after) {
  const Events& events = events_[entry.slot];
  const auto doing = [&] { return parts_.work.describe(entry.issue); };
  TRY_CUDA(cudaSetDevice(parts_.device), doing());
  for (const cudaEvent_t event : after) TRY_CUDA(cudaStreamWaitEvent(parts_.stream, event), doing());
  TRY_CUDA(cudaEventRecord(events.begin, parts_.stream), doing());
  TRY(enqueue_named(parts_.work, entry.issue, entry.slot, parts_.stream));
  TRY_CUDA(cudaEventRecord(events.end, parts_.stream), doing());
  return {};
}

bool StreamLane::pop(Entry& entry) {
  std::unique_lock lock(mutex_);
  pushed_.wait(lock, [&] { return head_ != tail_ || stop_; });
  if (head_ == tail_) return false;
  entry = ring_[tail_++ % lane_depth];
  return true;
}

void StreamLane::loop() {
  cudaSetDevice(parts_.device);
  Entry entry;
  while (pop(entry)) finish(entry);
}

// An op ends when this thread learns of it; how long it took is what the device measured.
void StreamLane::finish(const Entry& entry) {
  const Events& events = events_[entry.slot];
  const cudaError_t error = cudaEventSynchronize(events.end);
  const Nanos finished = parts_.clock.now();
  if (error != cudaSuccess)
    return parts_.board.post_error(entry.issue.sequence, finished, finished,
                                   cuda_error(error, parts_.work.describe(entry.issue)));
  float ms = 0;
  if (cudaEventElapsedTime(&ms, events.begin, events.end) != cudaSuccess) ms = 0;
  const u64 took_ns = static_cast<u64>(ms * 1e6F);
  parts_.work.ended(entry.issue, entry.slot);
  parts_.board.post(entry.issue.sequence, Nanos{finished.value > took_ns ? finished.value - took_ns : 0},
                    finished);
}

}  // namespace tidepool
