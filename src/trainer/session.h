// Everything a run owns, made in order from a config: model, plan, cores, memory, disk, executor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "executor/cpu/cpu_executor.h"
#include "kernels/kernels.h"
#include "io/arena.h"
#include "io/swap_file.h"
#include "planner/planner.h"
#include "trainer/state_store.h"

namespace tidepool {

// Pure: what a config means for the planner.
Result<ModelGraph> make_graph(const Config&);
PlanOptions plan_options(const Config&);

// Host memory beside the plan's frames: disk staging at rest and the checkpoint buffer.
inline constexpr Bytes executor_staging{1 * mib};
inline constexpr Bytes checkpoint_buffer{256 * kib};

class Session {
 public:
  // `source` must outlive the session. Errors say what to change; nothing is left behind.
  static Result<std::unique_ptr<Session>> create(const Config&, const ModelGraph&, Plan, StepSource& source);
  Session(const Session&) = delete;

  const ModelGraph& graph() const { return graph_; }
  const Plan& plan() const { return plan_; }
  CorePool& pool() { return *pool_; }
  Kernels& kernels() { return *kernels_; }
  std::span<std::byte> device_memory() { return device_->memory(); }
  std::span<std::byte> host_memory() { return host_->memory(); }
  CpuExecutor& executor() { return *executor_; }
  StateStore& state() { return *state_; }
  const ArenaLedger& ledger() const { return ledger_; }
  // One line each: arenas, disk, what is lost to limits.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Session(const ModelGraph& graph, Plan plan) : graph_(graph), plan_(std::move(plan)) {}
  Result<void> take_memory(const Config&);
  Result<void> open_executor(const Config&, StepSource&);
  void make_state_store();

  const ModelGraph graph_;
  const Plan plan_;
  std::vector<std::string> notes_;
  ArenaLedger ledger_;
  std::unique_ptr<CorePool> pool_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Arena> device_, host_;
  std::unique_ptr<SwapFile> swap_;
  std::unique_ptr<CpuExecutor> executor_;
  std::vector<std::byte> own_staging_;  // only where the host arena has no room at rest
  std::unique_ptr<StateStore> state_;
};

}  // namespace tidepool
