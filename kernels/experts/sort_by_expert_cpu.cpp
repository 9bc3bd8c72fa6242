#include <algorithm>
#include <cstring>

#include "kernels/experts/experts.h"

namespace tidepool {

// On the caller's thread only: 128 Ki choices take a fraction of a millisecond.
void sort_by_expert_cpu(const SortByExpert& op, CorePool&) {
  const u64 choices = u64{op.rows} * op.chosen;
  i32* first = op.offsets;
  std::fill_n(first, op.range.count + 1, 0);
  for (u64 slot = 0; slot < choices; ++slot) {
    if (op.range.holds(op.experts[slot])) ++first[static_cast<u32>(op.experts[slot]) - op.range.first + 1];
  }
  for (u32 e = 0; e < op.range.count; ++e) first[e + 1] += first[e];
  for (u64 slot = 0; slot < choices; ++slot) {
    const bool held = op.range.holds(op.experts[slot]);
    // The expert's entry counts up to its end, which is the begin of the next.
    const i32 place = held ? first[static_cast<u32>(op.experts[slot]) - op.range.first]++ : -1;
    if (held) op.slots[place] = static_cast<i32>(slot);
    if (op.places != nullptr) op.places[slot] = place;
  }
  std::memmove(first + 1, first, op.range.count * sizeof(i32));
  first[0] = 0;
}

}  // namespace tidepool
