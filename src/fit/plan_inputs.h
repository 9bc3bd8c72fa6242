// Plan inputs: what a config asks of the planner (model graph, budgets, choices), and the memory that a run
// needs beside its plan.
#pragma once

#include <string>

#include "config/config.h"
#include "fit/rest_staging.h"
#include "planner/planner.h"

namespace tidepool {

// Pure functions of the config, and of the graph that make_graph() has made of it.
Result<ModelGraph> make_graph(const Config&);
// `disk`: disk_budget() here, or the disk of another machine; disk_auto: no limit.
PlanOptions plan_options(const Config&, const ModelGraph&, Bytes disk);
// RETURNS: true if rows may hold several documents. GPT-2's positions are learned for whole rows: one
// document each.
bool packs_documents(const Config&);
// memory.experts_per_group, with auto replaced: groups of which one trains while the next comes up, in a
// quarter of the device budget. 0: the model has no experts.
u32 experts_per_group(const Config&);
// True if the norm may change updates: to clip, or in fp16 after an overflow.
bool norm_counts(const Config&);
// True if the host learns a step's loss scale too late for updates that do not wait for the norm.
bool scale_is_late(const Config&);
// As to_text(), but memory.disk=auto stays auto: the free space of today is not part of a plan's text.
std::string plan_text(const Config&, const Plan&);

// memory.disk on this machine: auto becomes the size that a swap file may take at the config's place for it.
Result<Bytes> disk_budget(const Config&);
u32 micro_batches_per_step(const Config&);  // all devices together

// Host memory beside the plan's frames: disk staging at rest and the checkpoint buffer.
inline constexpr Bytes executor_staging{1 * mib};
inline constexpr Bytes checkpoint_buffer{256 * kib};
Bytes host_reserved();  // sum of both, in whole pages
// Memory of each device beside the plan's frames: for its libraries and a step's numbers. 0 on a CPU.
Bytes device_reserved(const Config&, const ModelGraph&);
// Staging of checkpoints at rest for which no arena has room: it is taken beside the budgets.
Bytes staging_beside_budgets(const Plan&, DeviceMemory = DeviceMemory::of_host);
DeviceMemory device_memory_of(const Config&);

// Memory that a session takes of this machine, in addition to what the process has before. It is checked
// before anything is taken. On GPUs, what their driver and libraries take of the host is not known.
struct MemoryNeed {
  Bytes arenas, beside;
  Bytes sum() const { return arenas + beside; }
};
struct MemoryUsers {
  u32 workers = 1;             // threads of the core pool
  bool loads_weights = false;  // of a model directory
  Bytes steps{};               // memory that the caller of the session takes while it runs
};
MemoryNeed memory_need(const Config&, const Plan&, const MemoryUsers&);

}  // namespace tidepool
