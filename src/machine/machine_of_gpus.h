// A machine file counts devices as the driver does, a plan counts those that it uses.
#pragma once

#include <span>

#include "tidepool/machine.h"

namespace tidepool {

// The machine with its switches by a plan's devices: device i is gpus[i], and other GPUs are left out.
// No GPUs: devices are made of cores, and nothing changes.
Machine machine_of_gpus(Machine, std::span<const u32> gpus);

}  // namespace tidepool
