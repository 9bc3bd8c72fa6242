// Plan inputs: what a config asks of the planner (model graph, budgets, choices) and what a run takes beside
// its plan.
#pragma once

#include <string>

#include "config/config.h"
#include "fit/rest_staging.h"
#include "planner/planner.h"

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

}  // namespace tidepool
