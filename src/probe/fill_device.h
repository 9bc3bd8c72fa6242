// fill_device() and bring_to_device() fill device memory for a measurement.
#pragma once

#include <span>

#include "executor/device.h"

namespace tidepool {

// Uniform in [-scale, scale), copied from the beginning of host_memory(), whose content is lost. Not zeros:
// with zeros a GPU draws less power and runs faster.
// REQUIRES: `memory` lies in device.memory(); host_memory() is not empty; no work is in flight.
Result<void> fill_device(Device&, std::span<std::byte> memory, Precision, float scale);

// Copies `bytes` to `memory`, through host_memory(), whose content is lost.
// REQUIRES: equal sizes; otherwise as fill_device().
Result<void> bring_to_device(Device&, std::span<std::byte> memory, std::span<const std::byte> bytes);

}  // namespace tidepool
