// The one pool of CPU cores that compute, host Adam, copies and checksums share on purpose.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class Priority : u8 {
  high,    // host Adam, copies, checksums: they feed everyone else
  normal,  // compute
};

// A task: `task` of `count`, run on `worker` (index of a per-worker scratch area).
// A plain function pointer and context, so that a steady step allocates nothing.
struct TaskFn {
  void (*call)(void* context, u32 task, u32 worker) = nullptr;
  void* context = nullptr;
};

class CorePool {
 public:
  virtual ~CorePool() = default;

  // Runs `count` tasks on the workers and blocks the caller until all are done. Any thread may
  // call; several callers share the workers, higher priority first. REQUIRES: not from a task.
  virtual void run(Priority, u32 count, TaskFn) = 0;

  virtual u32 workers() const = 0;

  // `bytes` of 64-byte aligned scratch that only this worker touches while it runs a task.
  virtual std::byte* scratch(u32 worker) const = 0;
  virtual Bytes scratch_bytes() const = 0;
};

// Bound to cores with hwloc where that is allowed. workers = 0: one per core of this process.
Result<std::unique_ptr<CorePool>> create_core_pool(u32 workers, Bytes scratch_per_worker);

// A copy that workers share is cut into pieces of this size.
inline constexpr u64 copy_piece_bytes = mib;

// parallel_for(pool, priority, count, [&](u32 task, u32 worker) {...})
template <class Fn>
void parallel_for(CorePool& pool, Priority priority, u32 count, Fn&& fn) {
  using F = std::remove_reference_t<Fn>;
  pool.run(priority, count,
           {.call = [](void* context, u32 task, u32 worker) { (*static_cast<F*>(context))(task, worker); },
            .context = const_cast<void*>(static_cast<const void*>(&fn))});
}

}  // namespace tidepool
