// The choice whether updates wait for the norm is judged by the times that steps took.
#include "run/commits/speculation_choice.h"

#include <gtest/gtest.h>

#include "fit/job.h"
#include "planner/planner.h"
#include "tests/support/asked_plan.h"
#include "tests/support/train_fixture.h"

namespace tidepool::speculation_choice_test {
namespace {

class SpeculationChoiceTest : public ::testing::Test {
 protected:
  SpeculationChoiceTest() {
    config_.memory.home = HomePolicy::disk;
    config_.memory.versions = 2;
    config_.train.max_grad_norm = 1.0;
    config_.memory.swap_dir = dir_ / "swap";
    graph_ = make_job(config_).value().graph;
    chosen_.options = plan_options(config_, Bytes{gib});
    chosen_.plan = make_plan(graph_, chosen_.options).value();
  }

  // Steps whose norm changes nothing.
  void train(u64 steps, double seconds) {
    for (u64 i = 0; i < steps; ++i)
      choice_.step_done({.speculated = chosen_.plan.speculates, .took = seconds});
  }
  // As a run that changes its plan.
  std::string switches() {
    std::string said = choice_.switches(graph_, chosen_.plan, chosen_, Prediction{});
    if (!said.empty()) chosen_.plan.speculates = !chosen_.plan.speculates;
    return said;
  }

  static constexpr u64 calm = 10, timed = 6, settling = 4;
  const test::TrainDir dir_;
  Config config_ = test::small_config(dir_);
  ModelGraph graph_;
  RunPlan chosen_;
  SpeculationChoice choice_{config_, {.steps = calm, .untried = true, .timed = timed}};
};

TEST_F(SpeculationChoiceTest, GoesBackForGoodIfStepsAreNoFaster) {
  train(calm, 1.5);
  ASSERT_TRUE(choice_.asks());
  EXPECT_NE(switches(), "");
  EXPECT_TRUE(chosen_.plan.speculates);
  train(settling, 9.0);  // the first steps fill the lanes
  train(timed - 1, 1.49);
  EXPECT_FALSE(choice_.asks());
  train(1, 1.49);
  ASSERT_TRUE(choice_.asks());
  const std::string said = switches();
  EXPECT_NE(said.find("less than 2 % faster, 1.49 s instead of 1.50 s"), std::string::npos) << said;
  EXPECT_FALSE(chosen_.plan.speculates);
  train(4 * calm, 1.5);
  EXPECT_FALSE(choice_.asks());
}

TEST_F(SpeculationChoiceTest, GoesOnIfStepsAreFaster) {
  train(calm, 1.5);
  ASSERT_NE(switches(), "");
  train(settling + timed, 1.4);
  EXPECT_FALSE(choice_.asks());
  train(100, 3.0);  // later the machine has other work
  EXPECT_FALSE(choice_.asks());
  EXPECT_TRUE(chosen_.plan.speculates);
}

TEST_F(SpeculationChoiceTest, ComparesNoTimesIfToldSo) {
  SpeculationChoice choice(config_, {.steps = calm, .untried = true, .timed = 0});
  for (u64 i = 0; i < calm; ++i) choice.step_done({.took = 1.0});
  ASSERT_NE(choice.switches(graph_, chosen_.plan, chosen_, Prediction{}), "");
  for (u64 i = 0; i < 100; ++i) choice.step_done({.speculated = true, .took = 2.0});
  EXPECT_FALSE(choice.asks());
}

}  // namespace
}  // namespace tidepool::speculation_choice_test
