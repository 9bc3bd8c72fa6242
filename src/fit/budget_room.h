// What a machine has for budgets: larger ones are refused, and no larger ones are advised.
#pragma once

#include <optional>
#include <string>

#include "fit/plan_for.h"
#include "tidepool/machine.h"
#include "tidepool/plan.h"

namespace tidepool {

// None: nobody said how much there is.
struct BudgetRoom {
  std::string machine;          // its name
  std::optional<Bytes> device;  // of each
  std::optional<Bytes> host;
  std::optional<Bytes> disk;  // 0: it has no disk
  u32 devices = 1;
  bool is_shared = false;  // devices are made of cores, and lie in the host's memory
  bool is_gpu = false;     // more of a device's memory is taken than its budget: beside()

  // For one budget, whatever the others are.
  std::optional<Bytes> of(Tier) const;
  // What one budget can be raised to beside the others: as a config can say it, and never less than it is.
  std::optional<Bytes> most(const Budgets&, Tier) const;

  // Part of each GPU's memory outside its budget: the context, and what grows (machine/gpu_headroom.h).
  Bytes beside(Bytes host) const;
  // Host memory whose page tables a GPU still has room for. REQUIRES: is_gpu, and its memory is known.
  Bytes host_beside(Bytes device_budget) const;

  bool takes(const Budgets&) const;
  // RETURNS: true if those that lie in the same memory fit into it together.
  bool takes_together(const Budgets&) const;
};

// For `train` the disk that is here counts, whatever a file says: none is said.
BudgetRoom room_of(const Machine&, PlanFor, u32 devices);

// "memory.device=2.00 MiB for each of 3 devices and ... are more than box has (7.00 MiB)", or that it leaves
// too little of a GPU for all else. REQUIRES: !takes_together.
std::string shared_memory_text(const BudgetRoom&, const Budgets&);

}  // namespace tidepool
