// CorePool queues jobs in two lists, one per priority; workers claim tasks of the first job through an atomic
// counter. A job lives on its caller's stack and is linked in place, so a run allocates nothing.
//
// A *slot* is the right to run tasks as worker i, with its scratch. Slot i belongs to thread i, but a caller
// that runs on core i while the slot is free borrows it: a one-task run then costs no thread switch, and
// never more threads run tasks than there are workers.
#include "tidepool/core_pool.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "base/check.h"
#include "base/process/limits.h"
#include "base/process/start_thread.h"
#include "machine/topology.h"

namespace tidepool {
namespace {

constexpr u32 workers_max = 4096;
constexpr u32 tasks_max = 0xffff'0000;  // one claim per worker goes past the end and must not wrap
static_assert(none - tasks_max > workers_max);

// A wake-up takes 5 to 50 us, about as long as this spin (a pause is 40 to 140 cycles). Compute ops follow
// each other closer than that, and a core that waits for the disk soon becomes free for others.
constexpr u32 spins_before_sleep = 1000;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

thread_local bool in_task = false;

struct Job {
  TaskFn task;
  u32 count = 0;
  Priority priority{};
  std::atomic<u32> next{0};   // task to claim
  std::atomic<u32> users{0};  // threads inside work(); changes under the pool's mutex only
  std::condition_variable done{};
  Job* before = nullptr;
  Job* after = nullptr;
  bool linked = false;

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= count; }
  bool complete() const { return exhausted() && users.load(std::memory_order_acquire) == 0; }
};

// Jobs that may have unclaimed tasks, in order of arrival. Guarded by the pool's mutex; `size` is also read
// without.
struct JobList {
  Job* first = nullptr;
  Job* last = nullptr;
  std::atomic<u32> size{0};

  void link(Job& job) {
    job.before = last;
    (last != nullptr ? last->after : first) = &job;
    last = &job;
    job.linked = true;
    size.fetch_add(1, std::memory_order_relaxed);
  }
  void unlink(Job& job) {
    (job.before != nullptr ? job.before->after : first) = job.after;
    (job.after != nullptr ? job.after->before : last) = job.before;
    job.linked = false;
    size.fetch_sub(1, std::memory_order_relaxed);
  }
};

struct Worker {
  std::thread thread;
  std::condition_variable wake;
  bool asleep = false;
  bool slot_busy = true;  // until the thread has touched its scratch
  std::byte* scratch = nullptr;
};

class ThreadPool final : public CorePool {
 public:
  ThreadPool(std::unique_ptr<Topology> topology, u32 workers, Bytes scratch)
      : topology_(std::move(topology)),
        scratch_bytes_(scratch),
        // With fewer workers than cores, workers stay unbound: two such processes would meet on the first
        // cores.
        bind_(workers == topology_->cores() && workers == topology_->usable_cores()),
        spins_(workers <= topology_->usable_cores() ? spins_before_sleep : 0),
        workers_(workers) {}

  ~ThreadPool() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      for (Worker& worker : workers_) worker.wake.notify_one();
    }
    for (Worker& worker : workers_)
      if (worker.thread.joinable()) worker.thread.join();
    for (Worker& worker : workers_)
      if (worker.scratch != nullptr) munmap(worker.scratch, scratch_bytes_.value);
  }

  Result<void> start() {
    for (u32 i = 0; i < workers(); ++i) {
      TRY(map_scratch(workers_[i]));
      TRY_ASSIGN(workers_[i].thread, start_thread(fmt::format("tp-core{}", i), [this, i] { serve(i); }));
    }
    return {};
  }

  u32 workers() const override { return static_cast<u32>(workers_.size()); }
  std::byte* scratch(u32 worker) const override { return workers_[worker].scratch; }
  Bytes scratch_bytes() const override { return scratch_bytes_; }

  void run(Priority priority, u32 count, TaskFn task) override {
    CHECK(!in_task, count);
    CHECK(count <= tasks_max, count, tasks_max);
    if (count == 0) return;
    Job job{.task = task, .count = count, .priority = priority};
    std::unique_lock lock(mutex_);
    list(priority).link(job);
    const u32 slot = borrow_slot();
    wake_sleepers(count - (slot != none ? 1 : 0));
    if (slot != none) {
      work_on(job, slot, lock);
      if (jobs_linked() != 0 && workers_[slot].asleep) workers_[slot].wake.notify_one();
    }
    lock.unlock();
    for (u32 i = 0; i < spins_ && job.users.load(std::memory_order_relaxed) != 0; ++i) pause_cpu();
    lock.lock();
    job.done.wait(lock, [&] { return job.complete(); });
    if (job.linked) list(priority).unlink(job);
  }

 private:
  JobList& list(Priority priority) { return lists_[static_cast<u32>(priority)]; }
  u32 jobs_linked() const {
    return lists_[0].size.load(std::memory_order_relaxed) + lists_[1].size.load(std::memory_order_relaxed);
  }

  Result<void> map_scratch(Worker& worker) {
    if (scratch_bytes_.value == 0) return {};
    void* memory =
        mmap(nullptr, scratch_bytes_.value, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return no_memory(fmt::format("scratch of each of {} threads", workers()), scratch_bytes_, errno,
                       "set a smaller machine.threads");
    worker.scratch = static_cast<std::byte*>(memory);
    return {};
  }

  // RETURNS: the free slot of the caller's core, if workers are bound; otherwise any free slot. Taking
  // another bound core's slot would put the caller and a woken worker on one core.
  u32 borrow_slot() {
    if (bind_) {
      const u32 core = topology_->core_of_cpu(static_cast<u32>(sched_getcpu()));
      return core != none && !workers_[core].slot_busy ? core : none;
    }
    for (u32 i = workers(); i-- > 0;)
      if (!workers_[i].slot_busy) return i;
    return none;
  }

  void wake_sleepers(u32 wanted) {
    for (u32 i = 0; i < workers() && wanted > 0; ++i) {
      if (!workers_[i].asleep || workers_[i].slot_busy) continue;
      workers_[i].asleep = false;  // marked awake now, so that the next run wakes another worker
      workers_[i].wake.notify_one();
      --wanted;
    }
  }

  // RETURNS: the first job with unclaimed tasks, higher priority first.
  Job* pick() {
    for (JobList& jobs : lists_) {
      while (jobs.first != nullptr && jobs.first->exhausted()) jobs.unlink(*jobs.first);
      if (jobs.first != nullptr) return jobs.first;
    }
    return nullptr;
  }

  // Runs tasks until none is unclaimed or a job of higher priority waits.
  void work_on(Job& job, u32 slot, std::unique_lock<std::mutex>& lock) {
    workers_[slot].slot_busy = true;
    job.users.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    const std::atomic<u32>* urgent = job.priority == Priority::normal ? &list(Priority::high).size : nullptr;
    in_task = true;
    do {
      const u32 task = job.next.fetch_add(1, std::memory_order_relaxed);
      if (task >= job.count) break;
      job.task.call(job.task.context, task, slot);
    } while (urgent == nullptr || urgent->load(std::memory_order_relaxed) == 0);
    in_task = false;
    lock.lock();
    workers_[slot].slot_busy = false;
    if (job.linked && job.exhausted()) list(job.priority).unlink(job);
    job.users.fetch_sub(1, std::memory_order_release);
    // Notified under the mutex: once the mutex is free the caller may return, and then the job is gone.
    if (job.complete()) job.done.notify_one();
  }

  void serve(u32 i) {
    Worker& self = workers_[i];
    if (bind_) topology_->bind_thread_to_core(i);
    // first touch, so that pages lie on this core's NUMA node
    if (self.scratch != nullptr) std::memset(self.scratch, 0, scratch_bytes_.value);
    std::unique_lock lock(mutex_);
    self.slot_busy = false;
    while (!stopping_) {
      Job* job = pick();
      if (job != nullptr && !self.slot_busy) {
        work_on(*job, i, lock);
        continue;
      }
      if (job != nullptr) wake_sleepers(1);  // a caller took this slot: pass the wake-up to another worker
      if (job == nullptr && spin_for_job(lock)) continue;
      self.asleep = true;
      self.wake.wait(lock,
                     [&] { return stopping_ || !self.asleep || (jobs_linked() != 0 && !self.slot_busy); });
      self.asleep = false;
    }
  }

  bool spin_for_job(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    for (u32 i = 0; i < spins_ && jobs_linked() == 0; ++i) pause_cpu();
    lock.lock();
    return jobs_linked() != 0 || stopping_;
  }

  const std::unique_ptr<Topology> topology_;
  const Bytes scratch_bytes_;
  const bool bind_;
  const u32 spins_;
  std::mutex mutex_;  // guards the lists and the workers' flags; never held while a task runs
  std::array<JobList, 2> lists_;
  std::deque<Worker> workers_;
  bool stopping_ = false;
};

}  // namespace

Result<std::unique_ptr<CorePool>> create_core_pool(u32 workers, Bytes scratch_per_worker) {
  if (workers > workers_max)
    return Error{ErrorKind::usage,
                 fmt::format("machine.threads is {}; the most is {}", workers, workers_max)};
  TRY_ASSIGN(auto topology, create_topology());
  const u32 count = workers != 0 ? workers : topology->usable_cores();
  auto pool = std::make_unique<ThreadPool>(std::move(topology), count,
                                           Bytes{round_up(scratch_per_worker.value, frame_alignment)});
  TRY(pool->start());
  return std::unique_ptr<CorePool>(std::move(pool));
}

}  // namespace tidepool
