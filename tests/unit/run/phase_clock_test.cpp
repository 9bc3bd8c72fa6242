#include "run/outputs/phase_clock.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/tiny_plan.h"

namespace tidepool::phase_clock_test {

constexpr SegmentKind body = SegmentKind::body;

// Steps of {forward, backward} nanoseconds, one after the other.
std::vector<PhaseTime> phases_of(const std::vector<std::pair<u64, u64>>& steps,
                                 const std::vector<PhaseBound>& bounds) {
  test::TinyPlan tiny;
  const OpId forward = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId backward = tiny.add(body, OpKind::backward, LaneKind::compute, {forward});
  const OpId norm = tiny.add(body, OpKind::norm, LaneKind::host, {backward});
  PhaseClock clock(tiny.plan, steps.size());
  const Segment* segment = &tiny.plan.segment(body);
  u64 at = 1;
  clock.completed({segment, norm}, {.started = Nanos{at}, .finished = Nanos{at}});
  for (const auto& [before, after] : steps) {
    clock.completed({segment, backward}, {.started = Nanos{at + before}, .finished = Nanos{at + before + 1}});
    at += before + after;
    clock.completed({segment, norm}, {.started = Nanos{at}, .finished = Nanos{at}});
  }
  EXPECT_EQ(clock.steps(), steps.size());
  return clock.beside(bounds);
}

// Medians of each phase, 5 and 6, would sum to more than most of these steps took.
TEST(PhaseClock, PhasesAddUpToTheMedianStep) {
  const std::vector<std::pair<u64, u64>> steps = {{5, 1}, {1, 6}, {5, 6}, {5, 2}, {2, 6}};  // 6 7 11 7 8 ns
  const auto phases =
      phases_of(steps, {{.phase = "forward", .seconds = 0}, {.phase = "backward", .seconds = 0}});
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_NEAR(phases[0].seconds + phases[1].seconds, 7e-9, 1e-15);
  const auto whole = phases_of(steps, {{.phase = "step", .seconds = 0}});
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_NEAR(whole[0].seconds, 7e-9, 1e-15);
}

TEST(PhaseClock, ABoundAboveTheMeasuredTimeIsNone) {
  const auto phases =
      phases_of({{5, 2}}, {{.phase = "forward", .seconds = 4e-9}, {.phase = "backward", .seconds = 6e-9}});
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].bound_seconds, 4e-9);
  EXPECT_EQ(phases[1].bound_seconds, 0);
}

TEST(PhaseClock, WithoutASteadyStepThereAreNoPhases) {
  EXPECT_TRUE(phases_of({}, {{.phase = "step"}}).empty());
}

}  // namespace tidepool::phase_clock_test
