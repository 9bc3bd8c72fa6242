// Staging of checkpoints at rest: in gaps of the arenas, never in a home; staging without a gap is counted.
#include <gtest/gtest.h>

#include <array>

#include "config/config.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "fit/memory_need.h"
#include "fit/rest_staging.h"
#include "planner/planner.h"
#include "tests/support/asked_plan.h"
#include "tests/support/places.h"

namespace tidepool::staging_test {

Plan streaming_plan() {
  const Config config = load_config(source_file("configs/quickstart.yaml"), {"memory.disk=1GiB"}).value();
  return make_plan(make_job(config).value().graph, plan_options(config, config.memory.budgets.disk)).value();
}

void expect_clear_of_homes(const Plan& plan, const StagingPlace& place) {
  const u64 end = place.offset + place.bytes.value;
  for (const Frame& home : plan.homes) {
    if (home.bytes.value == 0 || home.tier != *place.tier) continue;
    EXPECT_TRUE(home.offset >= end || home.end() <= place.offset) << home.offset << " " << place.offset;
  }
  const u64 arena = round_up(plan.tiers[static_cast<u32>(*place.tier)].planned_peak.value, frame_alignment);
  EXPECT_LE(end, arena - (*place.tier == Tier::host ? host_reserved().value : 0));
}

TEST(Staging, LiesInGapsBesideEachOther) {
  const Plan plan = streaming_plan();
  const auto places = place_staging(plan, std::array{Bytes{64 * kib}, Bytes{32 * kib}}, host_reserved());
  for (const StagingPlace& place : places) {
    ASSERT_TRUE(place.tier);
    expect_clear_of_homes(plan, place);
  }
  const bool apart = places[0].tier != places[1].tier || places[0].offset + (64 * kib) <= places[1].offset ||
                     places[1].offset + (32 * kib) <= places[0].offset;
  EXPECT_TRUE(apart) << places[0].offset << " " << places[1].offset;
  EXPECT_EQ(staging_beside_budgets(plan), Bytes{0});
}

TEST(Staging, IsAddedBesideTheBudgetsIfNoArenaHasRoom) {
  const auto places =
      place_staging(streaming_plan(), std::array{Bytes{gib}, Bytes{32 * kib}}, host_reserved());
  EXPECT_FALSE(places[0].tier);
  EXPECT_EQ(places[0].bytes, Bytes{gib});
  EXPECT_TRUE(places[1].tier);
}

}  // namespace tidepool::staging_test
