#include "executor/cuda/stream_lane.h"

#include <pthread.h>

#include "executor/cuda/op_range.h"
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
  const auto create = [](cudaEvent_t& event) {
    return cudaEventCreateWithFlags(&event, cudaEventBlockingSync);
  };
  for (u64 s = 0; s < parts_.streams.size(); ++s) {
    TRY_CUDA(cudaSetDevice(parts_.streams[s].device),
             "using cuda:" + std::to_string(parts_.streams[s].device));
    for (Events& events : events_) {
      if (s > 0) {
        TRY_CUDA(create(events.ends.emplace_back()), "making an event");
        continue;
      }
      TRY_CUDA(create(events.begin), "making an event");
      TRY_CUDA(create(events.end), "making an event");
    }
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
  for (Events& events : events_) {
    events.ends.insert(events.ends.end(), {events.begin, events.end});
    for (const cudaEvent_t event : events.ends)
      if (event != nullptr) cudaEventDestroy(event);
  }
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

namespace {

Error named(const StreamWork& work, const Issue& issue, const Error& error) {
  return {error.kind, work.describe(issue) + ": " + error.message};
}

}  // namespace

Result<void> enqueue_named(StreamWork& work, const Issue& issue, u32 slot, cudaStream_t stream) {
  const OpRange range([&] { return work.describe(issue); });
  cudaGetLastError();  // of others
  const Result<void> enqueued = work.enqueue(issue, slot, stream);
  TRY_CUDA(cudaGetLastError(), work.describe(issue));  // of its launches and copies
  if (!enqueued) return named(work, issue, enqueued.error());
  return {};
}

Result<void> StreamLane::hand_over(const Entry& entry, std::span<const cudaEvent_t> after) {
  const Events& events = events_[entry.slot];
  const auto doing = [&] { return parts_.work.describe(entry.issue); };
  TRY_CUDA(begin(events, after), doing());
  TRY(enqueue_named(parts_.work, entry.issue, entry.slot, parts_.streams.front().stream));
  TRY_CUDA(end(events), doing());
  return {};
}

// The others begin when the first does: one event each, however many ops this one follows.
cudaError_t StreamLane::begin(const Events& events, std::span<const cudaEvent_t> after) {
  const StreamLaneParts::Stream& first = parts_.streams.front();
  cudaError_t error = cudaSetDevice(first.device);
  for (const cudaEvent_t event : after)
    if (error == cudaSuccess) error = cudaStreamWaitEvent(first.stream, event);
  if (error == cudaSuccess) error = cudaEventRecord(events.begin, first.stream);
  for (const StreamLaneParts::Stream& other : std::span(parts_.streams).subspan(1))
    if (error == cudaSuccess) error = cudaStreamWaitEvent(other.stream, events.begin);
  return error;
}

cudaError_t StreamLane::end(const Events& events) {
  const StreamLaneParts::Stream& first = parts_.streams.front();
  cudaError_t error = cudaSuccess;
  for (u64 s = 1; s < parts_.streams.size() && error == cudaSuccess; ++s) {
    error = cudaSetDevice(parts_.streams[s].device);
    if (error == cudaSuccess) error = cudaEventRecord(events.ends[s - 1], parts_.streams[s].stream);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(first.stream, events.ends[s - 1]);
  }
  if (error == cudaSuccess) error = cudaSetDevice(first.device);
  return error == cudaSuccess ? cudaEventRecord(events.end, first.stream) : error;
}

bool StreamLane::pop(Entry& entry) {
  std::unique_lock lock(mutex_);
  pushed_.wait(lock, [&] { return head_ != tail_ || stop_; });
  if (head_ == tail_) return false;
  entry = ring_[tail_++ % lane_depth];
  return true;
}

void StreamLane::loop() {
  cudaSetDevice(parts_.streams.front().device);
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
  const Nanos started{finished.value > took_ns ? finished.value - took_ns : 0};
  if (Result<void> ended = parts_.work.ended(entry.issue, entry.slot); !ended)
    return parts_.board.post_error(entry.issue.sequence, started, finished,
                                   named(parts_.work, entry.issue, ended.error()));
  parts_.board.post(entry.issue.sequence, started, finished);
}

}  // namespace tidepool
