// PlanFor says who asks for a plan.
#pragma once

#include "base/types.h"

namespace tidepool {

// `train` runs on this machine, so a machine file must describe devices of the same kind. A run that resumes
// from a checkpoint keeps its sequence length and precision. `tidepool plan` plans for the machine that the
// file describes, with its devices and its disk.
enum class PlanFor : u8 { this_machine, resumed_run, machine_of_file };

inline bool is_for_this_machine(PlanFor who) { return who != PlanFor::machine_of_file; }

}  // namespace tidepool
