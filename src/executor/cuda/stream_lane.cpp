// StreamLane orders ops by events on the device; a thread sleeps on the oldest op's event.
#include "executor/cuda/stream_lane.h"

#include "base/check.h"
#include "base/process/start_thread.h"
#include "executor/cuda/op_range.h"
#include "kernels/cuda/cuda_error.h"

namespace tidepool {

Result<std::unique_ptr<StreamLane>> StreamLane::create(const StreamLaneParts& parts) {
  std::unique_ptr<StreamLane> lane(new StreamLane(parts));
  TRY(lane->create_events());
  TRY_ASSIGN(lane->thread_, start_thread(parts.name, [raw = lane.get()] { raw->loop(); }));
  return lane;
}

// Blocking events: a thread that waits for one sleeps.
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

void StreamLane::stop() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

StreamLane::~StreamLane() {
  stop();
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

// CUDA's documentation says of these errors that the process must end before CUDA can be used again.
bool befalls_the_device(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorNvlinkUncorrectable:
      return true;
    default:
      return false;
  }
}

namespace {

struct Enqueued {
  Result<void> by_library;
  cudaError_t by_cuda;
};
Enqueued enqueue(StreamWork& work, const Issue& issue, u32 slot, cudaStream_t stream) {
  const OpRange range([&] { return work.describe(issue); });
  cudaGetLastError();  // clears errors of earlier calls
  Result<void> by_library = work.enqueue(issue, slot, stream);
  return {std::move(by_library), cudaGetLastError()};  // error of this op's launches and copies
}

}  // namespace

Result<void> enqueue_named(StreamWork& work, const Issue& issue, u32 slot, cudaStream_t stream) {
  const Enqueued enqueued = enqueue(work, issue, slot, stream);
  TRY_CUDA(enqueued.by_cuda, work.describe(issue));
  if (!enqueued.by_library) return named(work, issue, enqueued.by_library.error());
  return {};
}

std::vector<Issue> StreamLane::in_flight() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Issue> out;
  for (u64 i = ended_; i < head_; ++i) out.push_back(ring_[i % lane_depth].issue);
  return out;
}

Error StreamLane::error_of(cudaError_t error, const Issue& issue) const {
  return cuda_error(error, befalls_the_device(error) ? parts_.suspects(issue) : parts_.work.describe(issue));
}

Result<void> StreamLane::hand_over(const Entry& entry, std::span<const cudaEvent_t> after) {
  const Events& events = events_[entry.slot];
  if (const cudaError_t error = begin(events, after); error != cudaSuccess)
    return error_of(error, entry.issue);
  const Enqueued enqueued = enqueue(parts_.work, entry.issue, entry.slot, parts_.streams.front().stream);
  if (enqueued.by_cuda != cudaSuccess) return error_of(enqueued.by_cuda, entry.issue);
  if (!enqueued.by_library) return named(parts_.work, entry.issue, enqueued.by_library.error());
  if (const cudaError_t error = end(events); error != cudaSuccess) return error_of(error, entry.issue);
  return {};
}

// The other streams wait for the first: one event each, however many dependencies this op has.
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

// The op's end time is when this thread notices; its duration is measured by the device.
void StreamLane::finish(const Entry& entry) {
  const Events& events = events_[entry.slot];
  const cudaError_t error = cudaEventSynchronize(events.end);
  const Nanos finished = parts_.clock.now();
  if (error != cudaSuccess)
    return parts_.board.post_error(entry.issue.sequence, finished, finished, error_of(error, entry.issue));
  {
    const std::scoped_lock lock(mutex_);
    ++ended_;
  }
  float ms = 0;
  if (cudaEventElapsedTime(&ms, events.begin, events.end) != cudaSuccess) ms = 0;
  const Nanos took{static_cast<u64>(ms * 1e6F)};
  const Nanos started{finished.value > took.value ? finished.value - took.value : 0};
  if (Result<void> ended = parts_.work.ended(entry.issue, entry.slot, took); !ended)
    return parts_.board.post_error(entry.issue.sequence, started, finished,
                                   named(parts_.work, entry.issue, ended.error()));
  parts_.board.post(entry.issue.sequence, started, finished);
}

}  // namespace tidepool
