#include "io/simulated_medium.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "io/simulated_disk.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::simulated_medium_test {

constexpr u64 page = frame_alignment;

std::vector<std::byte> all_of(u64 bytes, int value) {
  return std::vector<std::byte>(bytes, std::byte(value));
}

// Values of the medium's sectors in [offset, offset + bytes); each sector holds one value.
std::vector<int> sectors(const SimulatedMedium& medium, u64 offset, u64 bytes) {
  std::vector<int> out;
  for (u64 at = offset; at < offset + bytes; at += sector_bytes) {
    const auto sector = medium.bytes().subspan(at, sector_bytes);
    EXPECT_TRUE(std::ranges::all_of(sector, [&](std::byte b) { return b == sector[0]; }));
    out.push_back(std::to_integer<int>(sector[0]));
  }
  return out;
}

TEST(SimulatedMedium, KeepsWhatWasFlushed) {
  for (u64 seed = 0; seed < 50; ++seed) {
    SimulatedMedium medium({.bytes = Bytes{4 * page}});
    EXPECT_TRUE(medium.write(page, all_of(2 * page, 7)));
    EXPECT_TRUE(medium.clear(2 * page, page));
    EXPECT_TRUE(medium.flush());
    EXPECT_TRUE(medium.write(0, all_of(page, 9)));
    medium.cut_power(seed);
    EXPECT_EQ(sectors(medium, page, page), std::vector<int>(8, 7));
    EXPECT_EQ(sectors(medium, 2 * page, page), std::vector<int>(8, 0));
  }
}

TEST(SimulatedMedium, LosesKeepsAndTearsTheRestInAnyOrder) {
  u64 kept = 0, lost = 0, torn_at_sectors = 0, torn_at_pages = 0, reordered = 0;
  for (u64 seed = 0; seed < 500; ++seed) {
    SimulatedMedium medium({.bytes = Bytes{2 * page}});
    ASSERT_TRUE(medium.write(0, all_of(2 * page, 1)) && medium.write(0, all_of(2 * page, 2)));
    medium.cut_power(seed);
    const std::vector<int> found = sectors(medium, 0, 2 * page);
    const std::set<int> values(found.begin(), found.end());
    const bool whole_pages = std::ranges::all_of(std::views::iota(0, 16), [&](int s) {
      return found[static_cast<u64>(s)] == found[static_cast<u64>(s / 8 * 8)];
    });
    kept += values == std::set{2};
    reordered += values == std::set{1};
    lost += values == std::set{0};
    if (values.size() > 1) ++(whole_pages ? torn_at_pages : torn_at_sectors);
  }
  for (const u64 count : {kept, lost, torn_at_sectors, torn_at_pages, reordered}) EXPECT_GT(count, 10u);
}

TEST(SimulatedMedium, LosesAndTearsClearings) {
  std::set<std::vector<int>> seen;
  for (u64 seed = 0; seed < 200; ++seed) {
    SimulatedMedium medium({.bytes = Bytes{page}});
    ASSERT_TRUE(medium.write(0, all_of(page, 5)) && medium.flush() && medium.clear(0, page));
    medium.cut_power(seed);
    seen.insert(sectors(medium, 0, page));
  }
  EXPECT_TRUE(seen.contains(std::vector<int>(8, 0)));
  EXPECT_TRUE(seen.contains(std::vector<int>(8, 5)));
  EXPECT_GT(seen.size(), 10u);
}

TEST(SimulatedMedium, ASeedRepeatsACut) {
  const auto once = [](u64 seed) {
    SimulatedMedium medium({.bytes = Bytes{64 * page}});
    for (u64 i = 0; i < 64; ++i) EXPECT_TRUE(medium.write(i * page, all_of(page, static_cast<int>(i))));
    medium.cut_power(seed);
    return std::vector<std::byte>(medium.bytes().begin(), medium.bytes().end());
  };
  EXPECT_EQ(once(3), once(3));
  EXPECT_NE(once(3), once(4));
}

TEST(SimulatedMedium, StopsAtAnyChangeAndAnswersNothingUntilItGoesOn) {
  for (u64 after = 0; after < 3; ++after) {
    SimulatedMedium medium({.bytes = Bytes{page}});
    medium.stop_after(after);
    EXPECT_EQ(medium.write(0, all_of(page, 1)), after > 0);
    EXPECT_EQ(medium.flush(), after > 1);
    EXPECT_FALSE(medium.clear(0, page));
    EXPECT_TRUE(medium.stopped());
    std::vector<std::byte> out(page);
    EXPECT_FALSE(medium.read(0, out));
    EXPECT_FALSE(medium.flush());
    medium.cut_power(1);
    EXPECT_TRUE(medium.read(0, out));
    EXPECT_TRUE(medium.write(0, all_of(page, 2)) && medium.flush());
  }
}

TEST(SimulatedMedium, TheEndOfAProcessLosesAtMostTheRequestThatItStruck) {
  std::set<std::pair<int, int>> seen;
  for (u64 seed = 0; seed < 50; ++seed) {
    SimulatedMedium medium({.bytes = Bytes{2 * page}});
    medium.stop_after(1);
    EXPECT_TRUE(medium.write(0, all_of(page, 1)));
    EXPECT_FALSE(medium.write(page, all_of(page, 2)));
    medium.end_process(seed);
    seen.insert({sectors(medium, 0, page)[3], sectors(medium, page, page)[3]});
  }
  EXPECT_EQ(seen, (std::set<std::pair<int, int>>{{1, 0}, {1, 2}}));
}

// The writes of a killed process are still in the cache when the power fails under the next one.
TEST(SimulatedMedium, TheEndOfAProcessFlushesNothing) {
  u64 lost = 0;
  for (u64 seed = 0; seed < 50; ++seed) {
    SimulatedMedium medium({.bytes = Bytes{page}});
    EXPECT_TRUE(medium.write(0, all_of(page, 1)));
    medium.end_process(seed);
    medium.cut_power(seed);
    lost += sectors(medium, 0, page) != std::vector<int>(8, 1);
  }
  EXPECT_GT(lost, 10u);
}

TEST(SimulatedMedium, ALyingDriveLosesWhatWasFlushed) {
  u64 lost = 0;
  for (u64 seed = 0; seed < 50; ++seed) {
    SimulatedMedium medium({.bytes = Bytes{page}, .flushes = false});
    EXPECT_TRUE(medium.write(0, all_of(page, 1)) && medium.flush());
    medium.cut_power(seed);
    lost += sectors(medium, 0, page) != std::vector<int>(8, 1);
  }
  EXPECT_GT(lost, 10u);
}

// ---- under a disk

TEST(SimulatedDiskPower, AfterAStopEveryRequestEndsInAnError) {
  SimulatedMedium medium({.bytes = Bytes{16 * page}});
  const auto arena = test::make_arena(16 * page);
  test::Completions completions;
  const auto disk = create_simulated_disk(medium, {.seed = 3}, {.piece = Bytes{page}}, completions.sink());
  test::fill_random(arena->memory(), 1);
  medium.stop_after(5);
  for (u64 i = 0; i < 8; ++i)
    disk->submit({DiskOp::write, 2 * i * page, arena->memory().subspan(2 * i * page, 2 * page), i});
  u64 failed = 0;
  for (const DiskCompletion& done : completions.take(8)) {
    failed += !done.ok;
    if (!done.ok) {
      EXPECT_NE(done.error.message.find("EIO"), std::string::npos) << done.error.message;
    }
  }
  EXPECT_GE(failed, 5u);  // 16 pieces, of which 5 were served
  EXPECT_FALSE(disk->sync());
  EXPECT_FALSE(disk->clear(0, Bytes{page}));
  disk->submit({DiskOp::read, 0, arena->memory().first(page), 9});
  EXPECT_FALSE(completions.take(1)[0].ok);
}

TEST(SimulatedDiskPower, AnotherDiskFindsWhatWasKept) {
  SimulatedMedium medium({.bytes = Bytes{2 * page}});
  const auto arena = test::make_arena(4 * page);
  const std::span<std::byte> from = arena->memory().first(2 * page),
                             to = arena->memory().subspan(2 * page, 2 * page);
  test::Completions completions;
  test::fill_random(from, 1);
  {
    const auto disk = create_simulated_disk(medium, {}, {}, completions.sink());
    disk->submit({DiskOp::write, 0, from, 1});
    EXPECT_TRUE(completions.take(1)[0].ok);
    EXPECT_TRUE(disk->sync());
  }
  medium.cut_power(2);
  const auto disk = create_simulated_disk(medium, {}, {}, completions.sink());
  disk->submit({DiskOp::read, 0, to, 2});
  EXPECT_TRUE(completions.take(1)[0].ok);
  EXPECT_TRUE(test::equal(from, to));
}

}  // namespace tidepool::simulated_medium_test
