// BudgetRoom says how large budgets may be on a machine: larger ones are refused, and never advised.
#pragma once

#include <optional>
#include <string>

#include "tidepool/machine.h"
#include "tidepool/plan.h"

namespace tidepool {

// PlanFor says who asks for a plan. `train` runs on this machine, so a machine file must describe devices of
// the same kind. A run that resumes from a checkpoint keeps its sequence length and precision. `tidepool
// plan` plans for the machine that the file describes, with its devices and its disk.
enum class PlanFor : u8 { this_machine, resumed_run, machine_of_file };

inline bool is_for_this_machine(PlanFor who) { return who != PlanFor::machine_of_file; }

// nullopt: the size is unknown.
struct BudgetRoom {
  std::string machine;          // its name
  std::optional<Bytes> device;  // of each device
  std::optional<Bytes> host;
  std::optional<Bytes> disk;  // 0: the machine has no disk
  u32 devices = 1;
  bool is_shared = false;  // devices are the CPU's cores, and their arenas lie in the host's memory
  bool is_gpu = false;     // GPU memory is needed beside the device budget too: beside()

  // Limit of one budget, independent of the others.
  std::optional<Bytes> of(Tier) const;
  // Largest value of one budget beside the others, rounded as a config writes it, and never less than it is
  // now.
  std::optional<Bytes> most(const Budgets&, Tier) const;

  // Part of each GPU's memory outside its budget: the context, and what grows (machine/gpu_headroom.h).
  Bytes beside(Bytes host) const;
  // Most host memory for whose page tables a GPU still has room.
  // REQUIRES: is_gpu, and the GPU's memory is known.
  Bytes host_beside(Bytes device_budget) const;

  bool takes(const Budgets&) const;
  // RETURNS: true if budgets that lie in the same memory fit into it together.
  bool takes_together(const Budgets&) const;
};

// For `train` the disk of this machine counts, not that of the machine file: the room has no limit for it.
BudgetRoom room_of(const Machine&, PlanFor, u32 devices);

// "memory.device=2.00 MiB for each of 3 devices and ... need more than box has (7.00 MiB)", or that the
// budgets leave too little of a GPU for everything else.
// REQUIRES: !takes_together.
std::string shared_memory_text(const BudgetRoom&, const Budgets&);

}  // namespace tidepool
