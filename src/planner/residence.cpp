#include "planner/residence.h"

#include <algorithm>

#include "tidepool/check.h"

namespace tidepool {

Held held_by(const Layout& layout, ChunkId first, u32 count, Spread spread, u32 device) {
  if (spread == Spread::copy) return {first, count};
  const u32 skipped = device * count;
  if (spread == Spread::each) return {offset_id(first, skipped), count};
  const Chunk& chunk = layout.chunk(first);
  CHECK(chunk.cut == 0, chunk.window, chunk.cut);
  const u32 cuts = layout.windows[chunk.window].cuts;
  return {offset_id(first, std::min(skipped, cuts)), std::min(count, cuts - std::min(skipped, cuts))};
}

}  // namespace tidepool
