// Commits are as frequent as slows training by 2 %, by what they turn out to cost.
#include "run/commits/commit_pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace tidepool::commit_pace_test {

// A run whose steps take 1 s, and wait `cost` seconds more for each commit, which takes as long or longer.
struct Training {
  explicit Training(CommitPace pace) : pace(pace) {}

  void train(u64 steps, double cost, double hidden = 0) {
    for (u64 step = 0; step < steps; ++step) {
      ++now.steps;
      now.wall += Nanos{1'000'000'000};
      if (++since < pace.steps()) continue;
      pace.follow(now);
      if (since < pace.steps()) continue;
      since = 0;
      ++now.commits;
      now.wall += Nanos{static_cast<u64>(cost * 1e9)};
      now.waited += Nanos{static_cast<u64>(cost * 1e9)};
      now.committing += Nanos{static_cast<u64>((cost + hidden) * 1e9)};
    }
  }

  CommitPace pace;
  CommitPace::Totals now;
  u64 since = 0;  // steps since the last commit
};

TEST(CommitPace, BecomesAsRareAsKeepsTheCostBelowTwoPercent) {
  Training run(CommitPace(1, true));
  run.train(200, 0.5);
  EXPECT_EQ(run.pace.steps(), 25u);
  EXPECT_DOUBLE_EQ(run.pace.seconds_of_commit(), 0.5);
}

// A flush beside reads slows them, which does not show as waiting for the commit.
TEST(CommitPace, CountsTheTimeOfCommitsBesideTraining) {
  Training run(CommitPace(1, true));
  run.train(200, 0.01, 0.19);
  EXPECT_EQ(run.pace.steps(), 10u);
}

TEST(CommitPace, StaysAtEachStepIfCommitsCostNothingToSpeakOf) {
  Training run(CommitPace(1, true));
  run.train(200, 0.015);
  EXPECT_EQ(run.pace.steps(), 1u);
}

TEST(CommitPace, DoesNotTurnBackAndForthBetweenOneStepAndTwo) {
  Training run(CommitPace(1, true));
  u64 changes = 0;
  for (u64 step = 0, before = 1; step < 400; ++step) {
    run.train(1, step / 5 % 2 == 0 ? 0.012 : 0.036);
    changes += std::exchange(before, run.pace.steps()) != run.pace.steps();
  }
  EXPECT_LE(changes, 1u);
}

TEST(CommitPace, BecomesMoreFrequentIfTheForecastWasTooHigh) {
  Training run(CommitPace(40, true));
  run.train(400, 0.1);
  EXPECT_EQ(run.pace.steps(), 5u);
}

// Each tenth step is trained again: at 0.5 s for a commit, the best is the square root of 2 * 0.5 / 0.1.
TEST(CommitPace, BecomesMoreFrequentIfStepsAreTrainedAgain) {
  Training run(CommitPace(1, true));
  for (int turn = 0; turn < 40; ++turn) {
    run.train(10, 0.5);
    ++run.now.replays;
  }
  EXPECT_NEAR(static_cast<double>(run.pace.steps()), std::sqrt(2 * 0.5 / 0.1), 1);
}

// One slow commit must not leave a run without any for long.
TEST(CommitPace, ChangesByAFactorOfFourAtOnce) {
  Training run(CommitPace(2, true));
  run.train(2, 100);
  run.train(4, 0);
  EXPECT_EQ(run.pace.steps(), 8u);
}

TEST(CommitPace, ForgetsASlowCommit) {
  Training run(CommitPace(1, true));
  run.train(1, 3);
  run.train(600, 0.01);
  EXPECT_EQ(run.pace.steps(), 1u);
}

TEST(CommitPace, KeepsWhatTheConfigSays) {
  Training run(CommitPace(3, false));
  run.train(100, 5);
  EXPECT_EQ(run.pace.steps(), 3u);
  EXPECT_EQ(CommitPace().steps(), 0u);
}

}  // namespace tidepool::commit_pace_test
