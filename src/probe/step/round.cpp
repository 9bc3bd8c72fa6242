#include "probe/step/round.h"

#include <algorithm>

namespace tidepool {

void cool_caches(Session& session, Bytes cache) {
  const std::span<std::byte> memory =
      session.host_memory().first(std::min<u64>(session.host_memory().size(), 2 * cache.value));
  const u64 piece = 256 * kib;
  parallel_for(session.pool(), Priority::high, static_cast<u32>(div_up(memory.size(), piece)),
               [&](u32 i, u32) {
                 u32 sum = 0;
                 for (u64 at = i * piece; at < std::min(memory.size(), (i + 1) * piece); at += 64)
                   sum += static_cast<u32>(memory[at]);
                 [[maybe_unused]] const volatile u32 keep = sum;  // without it the reads would be removed
               });
}

}  // namespace tidepool
