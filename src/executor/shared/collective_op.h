// What a collective op finds: whose bytes go where, on every device at once.
#pragma once

#include <array>

#include "engine/executor.h"
#include "executor/shared/arenas.h"

namespace tidepool {

// An owner's cuts, and where each device wants them.
struct GatheredCuts {
  u32 owner = 0;
  std::span<const std::byte> from;
  // By device; null where they lie in place already, or nobody wants them.
  std::array<std::byte*, devices_max> to{};
};

// An owner's sum, and what it is made of.
struct ScatteredSum {
  u32 owner = 0;
  std::array<const float*, devices_max> from{};  // by device
  float* sum = nullptr;
  u64 elements = 0;
};

// One of either per owner: devices without a cut have none.
template <class Part>
struct CollectiveParts {
  std::array<Part, devices_max> part{};
  u32 count = 0;

  std::span<const Part> all() const& { return std::span(part).first(count); }
  std::span<const Part> all() && = delete;  // they would be gone with it
  Part& add() {
    CHECK(count < devices_max, count);
    return part[count++];
  }
};

CollectiveParts<GatheredCuts> gathered_cuts(const Plan&, const TierMemory&, const Issue&);
CollectiveParts<ScatteredSum> scattered_sums(const Plan&, const TierMemory&, const Issue&);

}  // namespace tidepool
