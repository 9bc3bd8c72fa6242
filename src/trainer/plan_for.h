// Who asks for a plan.
#pragma once

#include "tidepool/types.h"

namespace tidepool {

// `train` runs on this machine, and cannot but for a machine made of the same stuff; `tidepool plan` plans
// for the machine that the file describes, its devices and its disk.
enum class PlanFor : u8 { this_machine, machine_of_file };

}  // namespace tidepool
