#include "chunk_manager/occupancy.h"

#include <gtest/gtest.h>

#include <random>

namespace tidepool::occupancy_test {

struct Taken {
  Occupancy::Range range;
  u64 begin = 0, end = 0;
};

u64 lowest_free_plainly(const std::vector<Taken>& all, Occupancy::Range range, u64 offset, u64 bytes) {
  for (bool moved = true; moved;) {
    moved = false;
    for (const Taken& t : all)
      if (t.range.begin <= range.end && range.begin <= t.range.end && t.begin < offset + bytes &&
          offset < t.end) {
        offset = t.end;
        moved = true;
      }
  }
  return offset;
}

TEST(Occupancy, FindsWhatAWalkOverAllFinds) {
  for (u32 seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](u32 n) { return std::uniform_int_distribution<u32>(0, n - 1)(random); };
    const u32 positions = 1 + below(70);
    Occupancy occupancy(static_cast<i32>(positions));
    std::vector<Taken> all;
    for (u32 i = 0; i < 150; ++i) {
      const u32 begin = below(positions);
      const Occupancy::Range range{static_cast<i32>(begin),
                                   static_cast<i32>(begin + below(positions - begin))};
      const u64 floor = below(40), bytes = 1 + below(20);
      const u64 offset = occupancy.lowest_free(range, floor, bytes);
      ASSERT_EQ(offset, lowest_free_plainly(all, range, floor, bytes));
      // Leaves gaps too: not every range is placed at the lowest free offset.
      const u64 at = below(3) == 0 ? offset + bytes * below(3) : offset;
      if (occupancy.lowest_free(range, at, bytes) != at) continue;
      occupancy.take(range, at, at + bytes);
      all.push_back({range, at, at + bytes});
    }
  }
}

}  // namespace tidepool::occupancy_test
