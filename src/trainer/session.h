// Everything a run owns, made in order from a config: model, plan, cores, memory, disk, executor.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "executor/devices.h"
#include "io/arena.h"
#include "io/swap_file.h"
#include "machine/product_file.h"
#include "planner/planner.h"
#include "trainer/rest_staging.h"
#include "trainer/state_store.h"

namespace tidepool {

// Pure: what a config means for the planner. `disk`: disk_budget() here, or what another machine has.
Result<ModelGraph> make_graph(const Config&);
// RETURNS: true if rows may hold several documents. GPT-2's positions are learned for whole rows: one
// document each.
bool packs_documents(const Config&);
PlanOptions plan_options(const Config&, Bytes disk);
inline PlanOptions plan_options(const Config& c) {
  return plan_options(c, c.memory.budgets.disk);
}  // auto: no limit
// to_text, but memory.disk=auto stays auto: what a disk has free today is no part of a plan's text.
std::string plan_text(const Config&, const Plan&);

// What memory.disk comes to on this machine: auto is what a swap file may take where the config puts it.
Result<Bytes> disk_budget(const Config&);
u32 micro_batches_per_step(const Config&);  // of all devices together

// Host memory beside the plan's frames: disk staging at rest and the checkpoint buffer.
inline constexpr Bytes executor_staging{1 * mib};
inline constexpr Bytes checkpoint_buffer{256 * kib};
Bytes host_reserved();  // the two together, in whole pages
// Of each device's memory beside the plan's frames: what its libraries and a step's numbers take. None on a
// CPU.
Bytes device_reserved(const Config&);
// What checkpoints stage at rest and no arena has room for: taken beside the budgets.
Bytes staging_beside_budgets(const Plan&, DeviceMemory = DeviceMemory::of_host);
DeviceMemory device_memory_of(const Config&);

// Memory that a session takes of this machine: checked before anything is taken.
struct MemoryNeed {
  Bytes arenas, beside;
};
MemoryNeed memory_need(const Config&, const Plan&, bool loads_weights);

// How a session comes by algorithms of matrix products on GPUs, where machine.tune_products is on. One that
// an earlier run has kept is taken in any case; this is for products that have none.
enum class ProductTiming : u8 {
  recall,   // the library's first advice
  for_now,  // timed, for this session alone
  keep,     // timed, and kept for later ones
};

struct SessionOptions {
  OpenDisk open_disk;                    // tests: in place of the swap file
  bool own_swap_dir = false;             // memory.swap_dir is nobody's but ours: goes at the end
  Nanos rest_patience{300'000'000'000};  // as in CpuExecutorParts
  bool loads_weights = false;            // of a model directory, which takes memory beside the budgets
  ProductTiming product_timing = ProductTiming::recall;
};

// Whether this program can train on what machine.executor names here: asked before anything is planned or
// taken. Error: ErrorKind::usage, with what can be done.
Result<void> check_executor(const Config&);
// Its two halves: whether such GPUs can be used here at all, and whether they compute in train.precision.
Result<void> check_gpus(const Config&);
Result<void> check_precision(const Config&);
// Of machine.executor=auto what it comes to here: cuda, or cpu. Returns a line for people, empty where it was
// not auto. Error: as check_precision, of the GPU that it comes to.
Result<std::string> resolve_executor(Config&);

class Session {
 public:
  // `source` must outlive the session. Errors say what to change; nothing is left behind.
  static Result<std::unique_ptr<Session>> create(const Config&, const ModelGraph&, Plan, StepSource& source,
                                                 const SessionOptions& = {});
  Session(const Session&) = delete;

  const ModelGraph& graph() const { return graph_; }
  const Plan& plan() const { return plan_; }
  CorePool& pool() { return *pool_; }
  Devices& devices() { return *devices_; }
  std::span<std::byte> host_memory() { return host_->memory(); }
  TrainingExecutor& executor() { return *executor_; }
  StateStore& state() { return *state_; }
  const ArenaLedger& ledger() const { return ledger_; }
  // By what matrix products on GPUs are made, as far as their bits depend on it: "first advice", or a hash of
  // the algorithms. Empty on CPUs.
  const std::string& algorithms() const { return algorithms_; }
  // One line each: arenas, disk, what is lost to limits.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Session(const ModelGraph& graph, Plan plan) : graph_(graph), plan_(std::move(plan)) {}
  Result<void> take_memory(const Config&, const SessionOptions&);
  Result<void> take_disk(const Config&, const SessionOptions&);
  Result<void> open_executor(const Config&, StepSource&, const SessionOptions&);
  Result<void> open_choices(const Config&, ProductTiming);
  void keep_choices(const Config&);
  void make_state_store();

  const ModelGraph graph_;
  const Plan plan_;
  std::vector<std::string> notes_;
  ArenaLedger ledger_;
  DeviceMemory device_memory_ = DeviceMemory::of_host;
  std::optional<ProductChoices> choices_;    // of GPUs; empty: nothing is chosen by a clock
  std::optional<ProductFile> product_file_;  // until what is new has been added
  std::string algorithms_;
  std::unique_ptr<CorePool> pool_;
  std::unique_ptr<Arena> host_;
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<SwapFile> swap_;
  std::unique_ptr<TrainingExecutor> executor_;
  std::array<std::vector<std::byte>, 2> own_staging_;  // only where no arena has room at rest for one of each
  std::unique_ptr<StateStore> state_;
};

}  // namespace tidepool
