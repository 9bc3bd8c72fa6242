// Memory that a run needs beside its plan: reserved in arenas, beside the budgets, and in all.
#pragma once

#include "config/config.h"
#include "fit/rest_staging.h"
#include "tidepool/plan.h"

namespace tidepool {

// Host memory beside the plan's frames: disk staging at rest and the checkpoint buffer.
inline constexpr Bytes executor_staging{1 * mib};
// A row may begin in one chunk and end in the next: two blocks more than its bytes.
static_assert(looked_up_row_bytes_max + 2 * frame_alignment <= executor_staging.value);
inline constexpr Bytes checkpoint_buffer{256 * kib};
Bytes host_reserved();  // sum of both, in whole pages
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
  Bytes updates{};             // scratch of updates in the host (update_scratch_of_host())
  Bytes lookups{};             // lookup_memory()
};
// RETURNS: scratch of all threads that update: the host's, and without GPUs each device's.
Bytes update_scratch_of_host(const ModelGraph&, const Plan&, DeviceMemory);
MemoryNeed memory_need(const Config&, const Plan&, const MemoryUsers&);

}  // namespace tidepool
