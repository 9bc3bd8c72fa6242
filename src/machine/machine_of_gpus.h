// Renumbers a machine's GPUs: a machine file counts devices as the driver does, a plan counts those that it
// uses.
#pragma once

#include <span>

#include "tidepool/machine.h"

namespace tidepool {

// RETURNS: the machine with switches in the plan's numbering: device i is gpus[i], other GPUs are left out.
// If `gpus` is empty, devices are made of cores and the machine is returned unchanged.
Machine machine_of_gpus(Machine, std::span<const u32> gpus);

}  // namespace tidepool
