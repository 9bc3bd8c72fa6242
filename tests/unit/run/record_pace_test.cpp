// Records are as frequent as slows training by 2 %, by what they turn out to cost.
#include "run/records/record_pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace tidepool::record_pace_test {

// A run whose steps take 1 s, and wait `cost` seconds more for each record, which takes as long or longer.
struct Training {
  explicit Training(RecordPace pace) : pace(pace) {}

  void train(u64 steps, double cost, double hidden = 0) {
    for (u64 step = 0; step < steps; ++step) {
      ++now.steps;
      now.wall += Nanos{1'000'000'000};
      if (++since < pace.steps()) continue;
      pace.follow(now);
      if (since < pace.steps()) continue;
      since = 0;
      ++now.records;
      now.wall += Nanos{static_cast<u64>(cost * 1e9)};
      now.waited += Nanos{static_cast<u64>(cost * 1e9)};
      now.recording += Nanos{static_cast<u64>((cost + hidden) * 1e9)};
    }
  }

  RecordPace pace;
  RecordPace::Totals now;
  u64 since = 0;  // steps since the last record
};

TEST(RecordPace, BecomesAsRareAsKeepsTheCostBelowTwoPercent) {
  Training run(RecordPace(1, true));
  run.train(200, 0.5);
  EXPECT_EQ(run.pace.steps(), 25u);
  EXPECT_DOUBLE_EQ(run.pace.seconds_of_record(), 0.5);
}

// A flush beside reads slows them, which does not show as waiting for the record.
TEST(RecordPace, CountsTheTimeOfRecordsBesideTraining) {
  Training run(RecordPace(1, true));
  run.train(200, 0.01, 0.19);
  EXPECT_EQ(run.pace.steps(), 10u);
}

TEST(RecordPace, StaysAtEachStepIfRecordsCostNothingToSpeakOf) {
  Training run(RecordPace(1, true));
  run.train(200, 0.015);
  EXPECT_EQ(run.pace.steps(), 1u);
}

TEST(RecordPace, DoesNotTurnBackAndForthBetweenOneStepAndTwo) {
  Training run(RecordPace(1, true));
  u64 changes = 0;
  for (u64 step = 0, before = 1; step < 400; ++step) {
    run.train(1, step / 5 % 2 == 0 ? 0.012 : 0.036);
    changes += std::exchange(before, run.pace.steps()) != run.pace.steps();
  }
  EXPECT_LE(changes, 1u);
}

TEST(RecordPace, BecomesMoreFrequentIfTheForecastWasTooHigh) {
  Training run(RecordPace(40, true));
  run.train(400, 0.1);
  EXPECT_EQ(run.pace.steps(), 5u);
}

// Each tenth step is trained again: at 0.5 s for a record, the best is the square root of 2 * 0.5 / 0.1.
TEST(RecordPace, BecomesMoreFrequentIfStepsAreTrainedAgain) {
  Training run(RecordPace(1, true));
  for (int turn = 0; turn < 40; ++turn) {
    run.train(10, 0.5);
    ++run.now.redos;
  }
  EXPECT_NEAR(static_cast<double>(run.pace.steps()), std::sqrt(2 * 0.5 / 0.1), 1);
}

// One slow record must not leave a run without any for long.
TEST(RecordPace, ChangesByAFactorOfFourAtOnce) {
  Training run(RecordPace(2, true));
  run.train(2, 100);
  run.train(4, 0);
  EXPECT_EQ(run.pace.steps(), 8u);
}

TEST(RecordPace, ForgetsASlowRecord) {
  Training run(RecordPace(1, true));
  run.train(1, 3);
  run.train(600, 0.01);
  EXPECT_EQ(run.pace.steps(), 1u);
}

TEST(RecordPace, KeepsWhatTheConfigSays) {
  Training run(RecordPace(3, false));
  run.train(100, 5);
  EXPECT_EQ(run.pace.steps(), 3u);
  EXPECT_EQ(RecordPace().steps(), 0u);
}

}  // namespace tidepool::record_pace_test
