// The profile of a circle against its positions, one by one.
#include "chunk_manager/timeline.h"

#include <gtest/gtest.h>

#include <random>

namespace tidepool {
namespace {

i32 positions_before(const CircleProfile& profile, i32 position, i32 most, Bytes bytes) {
  i32 count = 0;
  while (count < most) {
    const i32 before = (position - 1 - count + 2 * profile.positions()) % profile.positions();
    if (profile.at(before) > bytes) break;
    ++count;
  }
  return count;
}

TEST(CircleProfile, FindsTheLowPositionsBeforeOne) {
  for (const i32 positions : {1, 2, 63, 64, 65, 200, 1000}) {
    std::mt19937 random(static_cast<u32>(positions));
    const auto below = [&](i32 end) { return static_cast<i32>(random() % static_cast<u32>(end)); };
    CircleProfile profile(positions);
    for (u32 round = 0; round < 300; ++round) {
      const i32 end = below(positions);
      profile.add({end - below(positions), end}, Bytes{static_cast<u64>(below(8))});
      const i32 position = below(2 * positions) - positions, most = below(positions + 1);
      const Bytes bytes{profile.at(below(positions)).value};
      ASSERT_EQ(profile.low_before(position, most, bytes), positions_before(profile, position, most, bytes))
          << positions << " positions, before " << position << ", at most " << most;
    }
  }
}

}  // namespace
}  // namespace tidepool
