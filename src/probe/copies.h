// Copies between a device and the host, as probes, benchmarks and predictions time them.
#pragma once

#include <span>

#include "executor/device.h"

namespace tidepool {

enum class CopyDirection : u8 { h2d, d2h, both };

struct CopyWork {
  Bytes bytes;  // each way
  Bytes piece;  // bytes of one copy; the last copy may be smaller

  // Memory on either side: the first half goes up, the second half comes down, so copies never overlap.
  Bytes memory() const { return bytes * 2; }
};

// Issues the copies between the host's memory and `memory`, which is part of the device's. Both ways take
// turns, so that they begin together.
// REQUIRES: both memories have work.memory(), or half of it if nothing comes down.
void issue_copies(Device&, std::span<std::byte> memory, const CopyWork&, CopyDirection);

}  // namespace tidepool
