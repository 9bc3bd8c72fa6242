// Everything a run owns, made in order from a job and its plan: cores, memory, disk, executor.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/devices.h"
#include "fit/job.h"
#include "fit/rest_staging.h"
#include "io/arena.h"
#include "io/swap_file.h"
#include "session/nodes_at_rest.h"
#include "session/state_store.h"
#include "session/state_table.h"
#include "session/tuned_products.h"

namespace tidepool {

// SessionCommits describes the commits of a session whose plan keeps several versions of the state.
struct SessionCommits {
  CommitSource* source = nullptr;
  u64 payload_max = 0;  // of the source, in bytes
  StateOwner owner = {};
  const FoundState* found = nullptr;  // committed by a process that has ended; null: nothing
  // take_over: the session takes over the file of `found`, because the plan has the same slots. copy: the
  // file stays until its content has been copied. discard: a newer checkpoint is used.
  enum class Mode : u8 { take_over, copy, discard } mode = Mode::discard;
};

struct SessionOptions {
  OpenDisk open_disk;                    // tests: in place of the swap file
  bool own_swap_dir = false;             // memory.swap_dir is of this session only: removed at the end
  Nanos rest_patience{300'000'000'000};  // as in ExecutorRequest
  bool loads_weights = false;            // of a model directory, which takes memory beside the budgets
  Bytes steps_take{};                    // memory that the caller takes while steps run
  Transport* transport = nullptr;        // to the other nodes of the plan; null: none
  ProductTiming product_timing = ProductTiming::recall;
  SessionCommits commits = {};
  std::function<void(const std::string&)> say = {};  // lines that cannot wait for notes(); empty: dropped
};

// Session::algorithms() if machine.tune_products is off.
inline constexpr const char* first_advice = "first advice";

class Session {
 public:
  // `source` must outlive the session. Errors say what to change; nothing is left behind.
  static Result<std::unique_ptr<Session>> create(const Job&, Plan, StepSource& source,
                                                 const SessionOptions& = {});
  ~Session();
  Session(const Session&) = delete;

  const Job& job() const { return job_; }
  const ModelGraph& graph() const { return job_.graph; }
  const Plan& plan() const { return plan_; }
  CorePool& pool() { return *pool_; }
  Devices& devices() { return *devices_; }
  std::span<std::byte> host_memory() { return host_->memory(); }
  // The executor, by its interfaces.
  Executor& executor() { return *executor_; }
  StateAtRest& homes() { return *executor_; }
  // Several nodes, at rest. Node 0: lets the others go, which serve it until then. Others: serve node 0 until
  // it lets them go. One node: no-ops.
  Result<void> end_leading();
  Result<void> serve();
  NetLanes* net() { return executor_->net(); }  // null: one node
  const ExecutorCounters& counters() const { return *executor_; }
  StepResults& results() { return *executor_; }
  const StepResults& results() const { return *executor_; }
  TimedAtRest& timed() { return *executor_; }
  CommittedState& committed() { return *executor_; }
  // The state in the swap file counts from now on: the file outlives this process, unless discard_commit() is
  // called.
  void keep_commit();
  // The commit that was copied is replaced by the one that this session has made.
  Result<void> replace_commit();
  // The committed state is not needed any more: all is saved elsewhere.
  void discard_commit();
  bool has_swap_file() const { return swap_ != nullptr; }  // false: none, or a test's disk in its place
  // The last commit, without its payload: the next session takes it over. REQUIRES: as read_commit().
  FoundState last_commit() const;
  // Reader of the last commit. The content that it reads stays while it exists (CommitHold).
  // REQUIRES: no commit is being made; there is one, and no other reader; the session has a swap file, and
  // outlives the reader. THREADS: the reader is destroyed by the caller's thread.
  Result<std::unique_ptr<StateReader>> read_commit();
  // Most bytes that SessionCommits::source may supply.
  u64 payload_max() const;
  // True if ops or transfers were handed over and have not come back: the session's end would wait for them.
  bool busy() const { return executor_->busy(); }
  const Disk* disk() const { return executor_->disk(); }  // null: none
  StateStore& state() { return *state_; }
  const ArenaLedger& ledger() const { return ledger_; }
  // Algorithms of matrix products on GPUs, which their bits depend on: first_advice, or a hash of them. Empty
  // on CPUs.
  std::string algorithms() const {
    if (products_) return products_->algorithms();
    return device_memory_ == DeviceMemory::of_gpus ? first_advice : "";
  }
  // Lines for people: arenas, disk, and effects of limits.
  const std::vector<std::string>& notes() const { return notes_; }
  // Memory that the whole process is expected to have at most, as the OS counts it, before the session ends;
  // 0: not known, because a GPU's driver takes host memory, too.
  Bytes process_expected() const { return process_expected_; }

 private:
  Session(const Job& job, Plan plan) : job_(job), plan_(std::move(plan)) {}
  Result<void> take_memory(const SessionOptions&, Bytes resident_before);
  Result<void> take_disk(const SessionOptions&);
  void prepare_commits(const SessionCommits&);
  Result<void> open_executor(StepSource&, const SessionOptions&);
  void make_state_store();

  const Job job_;
  const Plan plan_;
  std::vector<std::string> notes_;
  Bytes process_expected_{};
  ArenaLedger ledger_;
  DeviceMemory device_memory_ = DeviceMemory::of_host;
  std::unique_ptr<TunedProducts> products_;  // of GPUs; null: nothing is chosen by a clock
  std::unique_ptr<CorePool> pool_;
  std::unique_ptr<Arena> host_;
  std::unique_ptr<Devices> devices_;
  std::optional<CommitRequest> commits_;  // several versions of the state
  std::string copied_commit_;             // file of the commit that was copied; empty: none
  std::string stale_commit_;              // file of a commit that a newer checkpoint replaces; empty: none
  std::unique_ptr<SwapFile> swap_;
  std::unique_ptr<TrainingExecutor> executor_;
  std::array<std::vector<std::byte>, 2> own_staging_;  // only if no arena has room at rest for one of each
  std::unique_ptr<LeadingHomes> leading_;              // node 0 of several
  std::vector<std::byte> serving_;                     // other nodes: room for a chunk
  std::unique_ptr<StateStore> state_;
};

}  // namespace tidepool
