// BlockRunner runs one block's threads as fibers and keeps what they wait for. One per host thread that runs
// kernels.
#pragma once

#include <fmt/format.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "block.h"
#include "fiber.h"
#include "grid.h"

namespace emulated_cuda {

struct AsyncCopy {
  void* to;
  const void* from;
  std::size_t bytes, zeros;
};

// One thread of the block.
struct DeviceThread {
  enum class State { ready, at_barrier, in_collective, left };

  ThreadIndices indices;
  unsigned number = 0;  // number within its block
  State state = State::ready;
  const char* waits_in = "";
  std::source_location where;
  std::vector<AsyncCopy> open_copies;         // copies of the uncommitted group
  std::deque<std::vector<AsyncCopy>> copies;  // committed, oldest first
  const std::function<void()>* kernel = nullptr;
  std::unique_ptr<Fiber> fiber = std::make_unique<Fiber>();
};

// A collective that some lanes of a warp wait in.
struct Collective {
  WarpFunction function;
  unsigned arrived = 0;
  WarpView view = {};
};

class BlockRunner {
 public:
  void run(const Grid&, uint3 block, std::uint64_t seed, const std::function<void()>& kernel);

  // Called by the running thread. See block.h.
  void barrier(std::source_location);
  void collective(unsigned mask, const void* in, void* out, WarpFunction, const char* name,
                  std::source_location);
  std::byte* dynamic_shared() { return shared_.data() + static_shared_bytes_max; }
  std::byte* static_shared(const void* key, std::size_t bytes, std::size_t alignment);
  DeviceThread& running() { return *running_; }

 private:
  struct StaticVariable {
    const void* key;
    std::size_t offset;
  };

  void start(const Grid&, uint3 block, const std::function<void()>& kernel);
  bool run_warp(unsigned warp, bool backwards);  // until all of its lanes wait; true if any ran
  void run_thread(DeviceThread&);
  void wait(DeviceThread::State, const char* name, std::source_location);
  void open_barrier();
  unsigned count(DeviceThread::State) const;
  [[noreturn]] void report_deadlock() const;
  std::string position(const DeviceThread&) const;

  std::vector<DeviceThread> threads_;  // grows to the largest block
  unsigned size_ = 0;                  // threads of this block
  std::array<std::vector<Collective>, block_threads_max / warp_lanes> collectives_;  // by warp
  std::vector<std::byte> shared_;                                                    // static, then dynamic
  std::vector<StaticVariable> statics_;
  std::size_t statics_end_ = 0;
  std::size_t statics_max_ = 0;  // bytes of static memory that dynamic shared memory leaves
  DeviceThread* running_ = nullptr;
};

// RETURNS: this host thread's runner.
BlockRunner& block_runner();

}  // namespace emulated_cuda
