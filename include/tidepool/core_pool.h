// CorePool runs tasks on one pool of CPU cores. Compute, updates, copies and checksums share it on purpose.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class Priority : u8 {
  high,    // updates, copies, checksums: they feed everyone else
  normal,  // compute
};

// TaskFn is the function that a worker calls per task. `task` counts from 0; `worker` is the index of a
// per-worker scratch area.
// A plain function pointer and context, so that a steady step allocates nothing.
struct TaskFn {
  void (*call)(void* context, u32 task, u32 worker) = nullptr;
  void* context = nullptr;
};

class CorePool {
 public:
  virtual ~CorePool() = default;

  // Runs `count` tasks on the workers and blocks the caller until all are done. Tasks of higher priority run
  // first.
  // REQUIRES: the caller is not a task of this pool.
  // THREADS: any; several callers share the workers.
  virtual void run(Priority, u32 count, TaskFn) = 0;

  virtual u32 workers() const = 0;

  // RETURNS: `bytes` of 64-byte aligned scratch that only this worker touches while it runs a task.
  virtual std::byte* scratch(u32 worker) const = 0;
  virtual Bytes scratch_bytes() const = 0;
};

// Binds workers to cores with hwloc where the system allows that.
// workers = 0: one worker per core of this process.
Result<std::unique_ptr<CorePool>> create_core_pool(u32 workers, Bytes scratch_per_worker);

// Size of the pieces of a copy that workers share: small enough to share the cores fairly, and large enough
// that handing a piece out (about 1 us) costs nothing: 1 MiB at 10 GB/s = 100 us.
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
