// Finds the operands of a collective op: source and destinations of bytes, on every device at once.
#pragma once

#include <array>

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"

namespace tidepool {

// An owner's cuts, and their destination on each device.
struct GatheredCuts {
  u32 owner = 0;
  std::span<const std::byte> from;
  // By device; null if the cuts are already in place, or the device does not need them.
  std::array<std::byte*, devices_max> to{};
};

// An owner's sum, and its addends.
struct ScatteredSum {
  u32 owner = 0;
  std::array<const float*, devices_max> from{};  // by device
  float* sum = nullptr;
  u64 elements = 0;
};

// CollectiveParts holds one part per owner; devices without a cut have none.
template <class Part>
struct CollectiveParts {
  std::array<Part, devices_max> part{};
  u32 count = 0;

  std::span<const Part> all() const& { return std::span(part).first(count); }
  std::span<const Part> all() && = delete;  // the span would dangle
  Part& add() {
    CHECK(count < devices_max, count);
    return part[count++];
  }
};

CollectiveParts<GatheredCuts> gathered_cuts(const Plan&, const TierMemory&, const Issue&);
CollectiveParts<ScatteredSum> scattered_sums(const Plan&, const TierMemory&, const Issue&);

}  // namespace tidepool
