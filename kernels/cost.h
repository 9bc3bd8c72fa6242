// What an operation costs: all that the planner and the simulated executor need to know of it.
#pragma once

#include "tidepool/types.h"

namespace tidepool {

struct Cost {
  u64 flops = 0;
  u64 bytes = 0;  // read and written once each, as if caches were perfect

  constexpr Cost operator+(Cost o) const { return {flops + o.flops, bytes + o.bytes}; }
  constexpr Cost operator*(u64 n) const { return {flops * n, bytes * n}; }
};

}  // namespace tidepool
