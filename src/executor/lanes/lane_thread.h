// LaneThread is an ordered lane: one thread that runs ops one after the other.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "executor/lanes/completion_board.h"
#include "executor/lanes/lane_work.h"

namespace tidepool {

// Most ops that a lane holds, from submit until the engine has taken their completion. Deep enough that a
// lane never waits for the engine to wake up, shallow enough that an error stops the lane soon.
inline constexpr u32 lane_depth = 8;

// Names the first device's thread "tp-compute", further devices' "tp-compute1" and so on: 15 characters at
// most.
std::string lane_thread_name(LaneId);

class LaneThread {
 public:
  // `name`: thread name for debuggers and top.
  // REQUIRES: all arguments outlive the lane; `name` has at most 15 characters.
  // Errors: as start_thread.
  static Result<std::unique_ptr<LaneThread>> create(const std::string& name, LaneWork&, const ExecutorClock&,
                                                    CompletionBoard&);
  ~LaneThread();  // waits until all its ops have completed
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  void push(const Issue&, std::span<const u64> in_flight);  // REQUIRES: it holds fewer than lane_depth ops

 private:
  struct Entry {
    Issue issue;
    std::array<u64, in_flight_max> in_flight{};
    u32 in_flight_count = 0;
  };
  LaneThread(LaneWork& work, const ExecutorClock& clock, CompletionBoard& board)
      : work_(work), clock_(clock), board_(board) {}
  void loop();
  void run(const Entry&);
  bool pop(Entry&);

  LaneWork& work_;
  const ExecutorClock& clock_;
  CompletionBoard& board_;
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::array<Entry, lane_depth> ring_{};
  u64 head_ = 0, tail_ = 0;  // pushed and popped so far
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tidepool
