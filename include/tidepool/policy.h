// Policies that a user may give to the planner instead of letting it choose.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// Tier in which persistent chunks rest. `mixed`: windows take device, host and disk in turn.
enum class HomePolicy : u8 { automatic, device, host, disk, mixed };
enum class RecomputePolicy : u8 { automatic, keep, recompute };
// on: updates run before the norm is known that may change them. off: they wait for it.
enum class SpeculatePolicy : u8 { automatic, on, off };

// on: rows of a table that is only looked up travel, and not the table. automatic: if the table is larger
// than half of the device's budget.
enum class LookupPolicy : u8 { automatic, on, off };

// How the devices of a node share a step. data: each runs all blocks, for some of the micro-batches. layers:
// block b runs on device b % devices, for all micro-batches. automatic: one of the two, by predicted time;
// no plan has this value.
enum class Parallel : u8 { data, layers, automatic };
constexpr std::string_view name(Parallel parallel) {
  constexpr std::array<std::string_view, 3> names = {"data", "layers", "auto"};
  return names[static_cast<u32>(parallel)];
}

// Shares of a node's micro-batches: one per device, or one that all devices work on together.
constexpr u32 replicas_of(Parallel parallel, u32 devices) {
  return parallel == Parallel::layers ? 1 : devices;
}

}  // namespace tidepool
