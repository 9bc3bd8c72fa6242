// Streams, each an in-order queue with its own thread, and the events that mark places in them.
#include <fmt/format.h>

#include <chrono>
#include <functional>

#include "base/mix_bits.h"
#include "base/steady_seconds.h"
#include "failure.h"
#include "nvtx3/nvToolsExt.h"
#include "runtime.h"

namespace emulated_cuda {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// RETURNS: the time that the stream's events record.
double seconds_of(const CUstream_st& stream) {
  const double operation_us = runtime().options.operation_us;
  return operation_us > 0 ? static_cast<double>(stream.operations) * operation_us * 1e-6 : steady_seconds();
}

void jitter(CUstream_st& stream, unsigned us_max) {
  if (us_max == 0) return;
  stream.random = tidepool::mix_bits(stream.random + tidepool::golden_gamma);
  if (stream.random % 2 == 0) return;  // half of the operations follow without a pause
  std::this_thread::sleep_for(std::chrono::microseconds((stream.random >> 8) % us_max));
}

bool may_run(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  return !runtime().options.late_streams || stream.finished < stream.wanted;
}

void run_stream(CUstream_st& stream) {
  Runtime& r = runtime();
  cudaSetDevice(stream.device);
  Lock lock(r.mutex);
  for (;;) {
    r.changed.wait(lock, [&] { return may_run(stream) || (stream.closing && stream.queue.empty()); });
    if (stream.queue.empty()) return;
    const CUstream_st::Operation operation = std::move(stream.queue.front());
    stream.queue.pop_front();
    const unsigned us_max = r.options.jitter_us_max;
    lock.unlock();
    jitter(stream, us_max);
    lock.lock();
    if (sticky_error(lock, stream.device) == cudaSuccess) {
      lock.unlock();
      operation.work();
      lock.lock();
    }
    stream.operations += operation.operations;
    ++stream.finished;
    r.changed.notify_all();
  }
}

// Waits, on the host or on another stream's thread, until `stream` has finished `operations`.
void wait_until(Lock& lock, CUstream_st& stream, std::uint64_t operations) {
  stream.wanted = std::max(stream.wanted, operations);
  runtime().changed.notify_all();
  runtime().changed.wait(lock, [&] { return stream.finished >= operations; });
}

// A failed device waits for nothing, and nothing waits for it.
void wait_for_mark(Lock& lock, const std::shared_ptr<Mark>& mark) {
  Runtime& r = runtime();
  const auto passes = [&] {
    return mark->done || sticky_error(lock, mark->device) != cudaSuccess ||
           sticky_error(lock, current_device()) != cudaSuccess;
  };
  if (!passes()) {
    mark->stream->wanted = std::max(mark->stream->wanted, mark->operation);
    r.changed.notify_all();
  }
  r.changed.wait(lock, passes);
}

}  // namespace

void require_stream(cudaStream_t stream) {
  if (stream == nullptr)
    fail("the default stream is not used: it waits for others in ways that plans do not show");
}

void enqueue(Lock&, cudaStream_t stream, std::function<void()> work, unsigned operations) {
  require_stream(stream);
  Runtime& r = runtime();
  if (stream->capture) {
    r.calls.back().captured = true;
    stream->capture->nodes.push_back(std::move(work));
    return;
  }
  const bool faulty = fires(r.faults.operation);
  if (const NvtxRanges& ranges = nvtx_ranges(); faulty)
    r.range_of_failure = ranges.open > 0 ? ranges.names.back() : "";
  ++stream->enqueued;
  if (faulty) {
    work = [device = stream->device] {
      Lock lock(runtime().mutex);
      runtime().sticky[device] = runtime().faults.operation_error;
      runtime().changed.notify_all();
    };
  }
  stream->queue.push_back({std::move(work), operations});
  r.changed.notify_all();
}

}  // namespace emulated_cuda

using namespace emulated_cuda;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  *stream = nullptr;
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (flags != cudaStreamNonBlocking)
    fail("a stream that is not cudaStreamNonBlocking waits for the default stream");
  auto* made = new CUstream_st;
  made->number = ++r.streams_made;
  made->device = current_device();
  made->random = r.options.seed * 1000 + made->number;
  r.streams.push_back(made);
  made->thread = std::thread([made] { run_stream(*made); });
  *stream = made;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}

// Queued work still runs, as in CUDA; here the caller waits for it.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (stream != nullptr && stream->capture) fail("a stream that captures is destroyed");
  if (stream == nullptr || std::erase(r.streams, stream) == 0)
    return returned(cudaErrorInvalidResourceHandle);
  stream->closing = true;
  stream->wanted = stream->enqueued;
  r.changed.notify_all();
  lock.unlock();
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  require_stream(stream);
  if (stream->capture) return returned(spoil(*stream));
  r.calls.push_back(
      {.kind = CallKind::stream_synchronize, .device = stream->device, .stream = stream->number});
  wait_until(lock, *stream, stream->enqueued);
  return returned(sticky_error(lock, stream->device));
}

cudaError_t cudaDeviceSynchronize() {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  const int device = current_device();
  for (CUstream_st* stream : r.streams)
    if (stream->device == device && stream->capture) return returned(spoil(*stream));
  r.calls.push_back({.kind = CallKind::device_synchronize, .device = device});
  const std::vector<CUstream_st*> streams = r.streams;  // REQUIRES: no stream is destroyed meanwhile
  for (CUstream_st* stream : streams) {
    if (stream->device == device) wait_until(lock, *stream, stream->enqueued);
  }
  return returned(sticky_error(lock, device));
}

cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (const cudaError_t error = sticky_error(lock, stream->device); error != cudaSuccess)
    return returned(error);
  if (stream->capture) return returned(spoil(*stream));
  stream->wanted = stream->enqueued;  // repeated queries count as waiting
  r.changed.notify_all();
  return returned(stream->finished == stream->enqueued ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (event == nullptr) return returned(cudaErrorInvalidResourceHandle);
  require_stream(stream);
  if (stream->capture) {
    stream->capture->spoilt = true;
    return returned(cudaErrorStreamCaptureIsolation);
  }
  if (event->mark != nullptr && event->mark->captured) fail("a second stream in a capture: not emulated");
  r.calls.push_back({.kind = CallKind::stream_wait_event,
                     .device = stream->device,
                     .stream = stream->number,
                     .event = event->number});
  if (event->mark == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
  const auto wait = [mark = event->mark] {
    Lock held(runtime().mutex);
    wait_for_mark(held, mark);
  };
  enqueue(lock, stream, wait, 0);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* context) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock, stream); error != cudaSuccess) return returned(error);
  require_stream(stream);
  r.calls.push_back({.kind = CallKind::host_function, .device = stream->device, .stream = stream->number});
  enqueue(lock, stream, [=] { function(context); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  *event = nullptr;
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  *event = new CUevent_st{.number = ++r.events_made, .device = current_device(), .mark = nullptr};
  ++r.events;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  if (event == nullptr) return returned(cudaErrorInvalidResourceHandle);
  delete event;
  --runtime().events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (event == nullptr) return returned(cudaErrorInvalidResourceHandle);
  require_stream(stream);
  if (event->device != stream->device) return returned(cudaErrorInvalidResourceHandle);
  r.calls.push_back({.kind = CallKind::event_record,
                     .device = stream->device,
                     .stream = stream->number,
                     .event = event->number});
  event->mark = std::make_shared<Mark>(
      Mark{.stream = stream, .device = stream->device, .operation = stream->enqueued + 1});
  event->mark->captured = stream->capture != nullptr;
  if (event->mark->captured) return cudaSuccess;
  const auto mark_place = [mark = event->mark] {
    Lock held(runtime().mutex);
    mark->seconds = seconds_of(*mark->stream);
    mark->done = true;
    runtime().changed.notify_all();
  };
  enqueue(lock, stream, mark_place, 0);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = unsafe_entry_error(lock); error != cudaSuccess) return returned(error);
  if (event == nullptr) return returned(cudaErrorInvalidResourceHandle);
  r.calls.push_back({.kind = CallKind::event_synchronize, .event = event->number});
  const auto mark = event->mark;
  if (mark == nullptr) return cudaSuccess;
  if (mark->captured) return returned(cudaErrorCapturedEvent);
  wait_for_mark(lock, mark);
  return returned(sticky_error(lock, mark->device));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = unsafe_entry_error(lock); error != cudaSuccess) return returned(error);
  const auto& mark = event->mark;
  if (mark == nullptr || mark->done) return cudaSuccess;
  if (mark->captured) return returned(cudaErrorCapturedEvent);
  mark->stream->wanted = std::max(mark->stream->wanted, mark->operation);
  r.changed.notify_all();
  return returned(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  Lock lock(runtime().mutex);
  if (begin->mark == nullptr || end->mark == nullptr || begin->device != end->device)
    return returned(cudaErrorInvalidResourceHandle);
  if (begin->mark->captured || end->mark->captured) return returned(cudaErrorCapturedEvent);
  if (!begin->mark->done || !end->mark->done) return returned(cudaErrorNotReady);
  *ms = static_cast<float>((end->mark->seconds - begin->mark->seconds) * 1e3);
  return cudaSuccess;
}
