// Who asks for a plan.
#pragma once

#include "base/types.h"

namespace tidepool {

// `train` runs on this machine, and cannot but for a machine made of the same stuff; where it goes on from a
// checkpoint, the lengths of sequences and the precision stay as they were. `tidepool plan` plans for the
// machine that the file describes, its devices and its disk.
enum class PlanFor : u8 { this_machine, resumed_run, machine_of_file };

inline bool is_for_this_machine(PlanFor who) { return who != PlanFor::machine_of_file; }

}  // namespace tidepool
