// A lane that is a CUDA stream of a device, or of each of several. Ops are handed to the devices when they
// are submitted, with waits for what they depend on, so devices go from one to the next without us. A thread
// sleeps until each has ended.
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

#include "executor/shared/completion_board.h"
#include "executor/shared/lane_thread.h"
#include "executor/shared/lane_work.h"

namespace tidepool {

// What the ops of stream lanes do. `slot`: of the op in its lane, below lane_depth; nobody else's until the
// engine has taken the completion.
class StreamWork {
 public:
  virtual ~StreamWork() = default;
  // Hands kernels and copies of the op to the stream and returns; of several, to them all. The engine's
  // thread; the lane's first device is set. What CUDA refuses stays with it, for the lane; an error is what a
  // library refused beside.
  virtual Result<void> enqueue(const Issue&, u32 slot, cudaStream_t) = 0;
  // They have ended, and took the device so long. The lane's thread. An error is what a library tells of the
  // op, and CUDA does not.
  virtual Result<void> ended(const Issue&, u32 slot, Nanos took) = 0;
  // For messages: which op, on which lane, how many bytes.
  virtual std::string describe(const Issue&) const = 0;
};

struct StreamLaneParts {
  std::string name;  // of the thread, at most 15 characters
  struct Stream {
    int device = 0;  // as CUDA counts
    cudaStream_t stream = nullptr;
  };
  // An op begins on all of them when what it follows has ended everywhere, and has ended when all have.
  std::vector<Stream> streams;
  StreamWork& work;
  const ExecutorClock& clock;
  CompletionBoard& board;
  // For messages: the ops that a failure of the device may have come from, where a call for this op was told.
  std::function<std::string(const Issue&)> suspects;
};

class StreamLane {
 public:
  // All parts must outlive it.
  static Result<std::unique_ptr<StreamLane>> create(const StreamLaneParts&);
  ~StreamLane();  // as stop()
  StreamLane(const StreamLane&) = delete;
  StreamLane& operator=(const StreamLane&) = delete;

  // Returns the event that marks the op's end on all its devices, its own until the engine has taken the
  // completion.
  // REQUIRES: it holds less than lane_depth; engine's thread.
  cudaEvent_t submit(const Issue&, std::span<const cudaEvent_t> after);

  // After what it holds has completed. Nothing is submitted from then on.
  void stop();
  // Handed to the stream and not known to have ended, oldest first. Any thread.
  std::vector<Issue> in_flight() const;

 private:
  struct Entry {
    Issue issue;
    u32 slot = 0;
  };
  struct Events {
    cudaEvent_t begin = nullptr, end = nullptr;  // of the first stream, which leads
    std::vector<cudaEvent_t> ends;               // of the others
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
  u64 head_ = 0, tail_ = 0, ended_ = 0;  // pushed, popped, and ended well so far
  bool stop_ = false;
  std::thread thread_;
};

// An op handed to a stream by itself. Error: what CUDA or a library says of it, with the op's description.
Result<void> enqueue_named(StreamWork&, const Issue&, u32 slot, cudaStream_t);

// Whether the error is the device's and told by whatever call comes next, so that it says nothing of that
// call.
bool befalls_the_device(cudaError_t);

}  // namespace tidepool
