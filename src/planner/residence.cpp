#include "planner/residence.h"

#include <algorithm>

#include "base/check.h"

namespace tidepool {

Held held_by(const Layout& layout, ChunkId first, u32 count, Spread spread, u32 replica) {
  if (spread == Spread::copy) return {first, count};
  if (spread == Spread::each) return {offset_id(first, replica * count), count};
  const Chunk& chunk = layout.chunk(first);
  CHECK(chunk.cut == 0, chunk.window, chunk.cut);
  const WindowChunks& window = layout.windows[chunk.window];
  return {offset_id(first, window.shard_begin(replica)), window.shard_size(replica)};
}

Bytes most_held(const Layout& layout, ChunkId first, u32 count, Spread spread) {
  return spread == Spread::shard ? layout.shard_bytes(first) : layout.bytes(first, count);
}

Bytes state_bytes(const Layout& layout, u32 w) {
  const WindowChunks& chunks = layout.windows[w];
  Bytes most{};
  for (u32 replica = 0; replica < layout.replicas; ++replica) {
    Bytes sum{};
    for (u32 cut = chunks.shard_begin(replica); cut < chunks.shard_begin(replica + 1); ++cut)
      for (ChunkId id : layout.state(w, cut)) sum += layout.chunk(id).bytes;
    most = std::max(most, sum);
  }
  return most;
}

Bytes gradient_bytes(const Layout& layout, u32 w) {
  if (!layout.windows[w].trains) return Bytes{0};
  const WindowChunks& chunks = layout.windows[w];
  return layout.shard_bytes(layout.nodes > 1 ? chunks.grad_accum[0] : chunks.grad);
}

Bytes bytes_at_home(const Layout& layout, u32 w) {
  return state_bytes(layout, w) + (layout.params_die(w) ? Bytes{0} : gradient_bytes(layout, w));
}

}  // namespace tidepool
