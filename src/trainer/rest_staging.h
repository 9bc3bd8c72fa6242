// Memory that is free while nothing runs: the arenas hold homes then, and what lies between them is room for
// reading and writing the state.
#pragma once

#include <span>
#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

// Ranges of `arena` (from its begin to `end_bytes`) that no home and no scalars of the tier touch; largest first.
std::vector<std::span<std::byte>> free_at_rest(const Plan&, Tier, std::span<std::byte> arena, u64 end_bytes);

// Cuts `bytes`, whole pages, off the first range that has them. Empty if none has, or none are asked for.
std::span<std::byte> take_from(std::vector<std::span<std::byte>>& ranges, u64 bytes);

}  // namespace tidepool
