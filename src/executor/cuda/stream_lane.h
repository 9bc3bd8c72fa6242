// StreamLane is a lane that is a CUDA stream of one device, or a stream on each of several. Ops are submitted
// to the device at once, with waits for their dependencies, so a device goes from op to op without the host.
// A thread sleeps until each op has ended.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/lanes/completion_board.h"
#include "executor/lanes/lane_thread.h"
#include "executor/lanes/lane_work.h"

namespace tidepool {

// StreamWork does the ops of stream lanes. `slot`: the op's number in its lane, below lane_depth; the op owns
// it until the engine has taken the completion.
class StreamWork {
 public:
  virtual ~StreamWork() = default;
  // Submits kernels and copies of the op to the stream, or to the streams of all devices, and returns. The
  // lane's first device is current. CUDA keeps its own errors for the lane to ask.
  // THREADS: the engine's thread.
  // Errors: a library's refusal, in addition to CUDA's errors.
  virtual Result<void> enqueue(const Issue&, u32 slot, cudaStream_t) = 0;
  // The op has ended after `took` on the device.
  // THREADS: the lane's thread.
  // Errors: a library's error of the op that CUDA does not report.
  virtual Result<void> ended(const Issue&, u32 slot, Nanos took) = 0;
  // For messages: op, lane and bytes.
  virtual std::string describe(const Issue&) const = 0;
};

struct StreamLaneParts {
  std::string name;  // thread name, at most 15 characters
  struct Stream {
    int device = 0;  // CUDA's device number
    cudaStream_t stream = nullptr;
  };
  // An op begins on all streams when its dependencies have ended everywhere, and ends when all streams have
  // ended it.
  std::vector<Stream> streams;
  StreamWork& work;
  const ExecutorClock& clock;
  CompletionBoard& board;
  // For messages: ops that may have caused a device failure that was reported to a call for this op.
  std::function<std::string(const Issue&)> suspects;
};

class StreamLane {
 public:
  // REQUIRES: all parts outlive the lane.
  static Result<std::unique_ptr<StreamLane>> create(const StreamLaneParts&);
  ~StreamLane();  // calls stop()
  StreamLane(const StreamLane&) = delete;
  StreamLane& operator=(const StreamLane&) = delete;

  // RETURNS: the event that marks the op's end on all its devices. It belongs to the op until the engine has
  // taken the completion.
  // REQUIRES: the lane holds fewer than lane_depth ops.
  // THREADS: the engine's thread.
  cudaEvent_t submit(const Issue&, std::span<const cudaEvent_t> after);

  // Waits until all its ops have completed.
  // REQUIRES: nothing is submitted afterwards.
  void stop();
  // RETURNS: submitted ops that are not known to have ended, oldest first.
  // THREADS: any thread may call.
  std::vector<Issue> in_flight() const;

 private:
  struct Entry {
    Issue issue;
    u32 slot = 0;
  };
  struct Events {
    cudaEvent_t begin = nullptr, end = nullptr;  // on the first stream, which leads
    std::vector<cudaEvent_t> ends;               // on the other streams
  };

  explicit StreamLane(const StreamLaneParts& parts) : parts_(parts) {}
  Result<void> create_events();
  Error error_of(cudaError_t, const Issue&) const;
  Result<void> hand_over(const Entry&, std::span<const cudaEvent_t> after);
  cudaError_t begin(const Events&, std::span<const cudaEvent_t> after);
  cudaError_t end(const Events&);
  void loop();
  bool pop(Entry&);
  void finish(const Entry&);

  const StreamLaneParts parts_;
  std::array<Events, lane_depth> events_{};
  mutable std::mutex mutex_;
  std::condition_variable pushed_;
  std::array<Entry, lane_depth> ring_{};
  u64 head_ = 0, tail_ = 0, ended_ = 0;  // numbers of ops pushed, popped, and ended without error
  bool stop_ = false;
  std::thread thread_;
};

// Submits an op to a stream outside a lane.
// Errors: of CUDA or a library, with the op's description.
Result<void> enqueue_named(StreamWork&, const Issue&, u32 slot, cudaStream_t);

// RETURNS: true for an error of the whole device, which CUDA reports to the next call whatever it is, so that
// the error says nothing about that call.
bool befalls_the_device(cudaError_t);

}  // namespace tidepool
