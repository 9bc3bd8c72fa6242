// Notes of a resumed run about a changed plan.
#include "run/directory/plan_change.h"

#include <gmock/gmock.h>

#include "fit/job.h"
#include "fit/plan_run.h"
#include "run/assembly/assemble_report.h"
#include "tests/support/asked_plan.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::plan_change_test {

using test::TrainDir;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* no_effect = "that changes no loss and no weight";
constexpr const char* other_sums = "sums are computed in another order, so the last digits differ";

std::string text_of(const Config& config) {
  const auto plan = make_plan(make_job(config).value().graph, plan_options(config));
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? plan_text(config, *plan) : "";
}

// Regression: the note said that numbers do not depend on the change, although kernels differ.
TEST(PlanChange, AnotherKindOfDeviceIsAChangedSetting) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  const TrainerState then{.settings = numeric_settings(config)};
  config.machine.executor = "cpu:2";
  EXPECT_TRUE(changed_settings(then, numeric_settings(config)).empty());
  config.machine.executor = "cuda:0";
  EXPECT_THAT(changed_settings(then, numeric_settings(config)),
              ::testing::ElementsAre("machine.executor: cpu then, cuda now"));
}

TEST(PlanChange, NamesWhatDiffers) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.budgets = {Bytes{2 * mib}, Bytes{3 * mib}, Bytes{64 * mib}};
  config.train.gradient_accumulation_steps = 4;
  const std::string before = text_of(config);
  EXPECT_EQ(plan_change(before, before), "");
  config.memory.budgets.host = Bytes{4 * mib};
  config.memory.sweeps = 2;
  const std::string change = plan_change(before, text_of(config));
  EXPECT_THAT(change, HasSubstr("sweeps 1 -> 2"));
  EXPECT_THAT(change, HasSubstr("host budget 3145728 -> 4194304"));
  EXPECT_THAT(change, Not(HasSubstr("peak")));
  EXPECT_THAT(change, HasSubstr(no_effect));
  EXPECT_THAT(plan_change("tidepool plan 1\na 1\nhome x", "tidepool plan 1\na 1\nhome y"),
              HasSubstr("places or movements"));
  EXPECT_THAT(plan_change("tidepool plan 1\na 1 b 2\nhome x", "tidepool plan 1\na 1\nhome x"),
              HasSubstr("b 2 -> none"));
}

// Stops a run with one config and resumes with another: tests changes that training accepts, by its notes.
class ResumedPlan : public ::testing::Test {
 protected:
  Config of(const char* executor, u32 accumulation) const {
    Config c = test::small_config(dir_);
    c.machine.executor = executor;
    c.train.gradient_accumulation_steps = accumulation;
    return c;
  }

  std::string change(const Config& before, const Config& now) const {
    const auto stopped = test::run(before, {.stop_after = 2});
    EXPECT_TRUE(!stopped && stopped.error().kind == ErrorKind::interrupted);
    const std::string plan_file = before.output.dir + "/plan.txt";
    const std::string plan = test::file_text(plan_file);
    const auto report = test::run(now, {.resume = "auto"});
    EXPECT_TRUE(report) << report.error().message;
    return plan_change(plan, test::file_text(plan_file));
  }

  TrainDir dir_;
};

// Regression: the note was "other places or movements: losses and weights do not depend on it".
TEST_F(ResumedPlan, OnOneDeviceInsteadOfTwoSumsInAnotherOrder) {
  const std::string line = change(of("cpu:2", 2), of("cpu", 4));
  EXPECT_THAT(line, HasSubstr("devices 2 -> 1"));
  EXPECT_THAT(line, HasSubstr(other_sums));
  EXPECT_THAT(line, Not(HasSubstr("dropout")));
}

TEST_F(ResumedPlan, OneMicroBatchOnEachDeviceIsOneDeviceThatAccumulates) {
  const std::string line = change(of("cpu", 4), of("cpu:4", 1));
  EXPECT_THAT(line, HasSubstr("devices 1 -> 4"));
  EXPECT_THAT(line, HasSubstr(no_effect));
  EXPECT_THAT(plan_change(text_of(of("cpu:4", 1)), text_of(of("cpu", 4))), HasSubstr(no_effect));
  EXPECT_THAT(plan_change(text_of(of("cpu:4", 1)), text_of(of("cpu:2", 2))), HasSubstr(other_sums));
}

TEST_F(ResumedPlan, LayersOverDevicesSumAsOneDevice) {
  Config layers = of("cpu:2", 2);
  layers.machine.parallel = Parallel::layers;
  const std::string line = change(of("cpu:2", 2), layers);
  EXPECT_THAT(line, HasSubstr("parallel data -> layers"));
  EXPECT_THAT(line, HasSubstr(other_sums));
  EXPECT_THAT(plan_change(text_of(layers), text_of(of("cpu", 4))), HasSubstr(no_effect));
  EXPECT_THAT(plan_change(text_of(layers), text_of(of("cpu:4", 1))), HasSubstr(no_effect));
}

// Each of two nodes sums its micro-batches by itself, whatever devices it has.
TEST(PlanChange, AnotherNumberOfNodesSumsInAnotherOrder) {
  const auto text = [](const char* share) {
    return std::string("tidepool plan 1\nmicro_batches 4") + share + "\nhome";
  };
  const std::string two = text(" devices 2 parallel layers node 0 of 2");
  const std::string line = plan_change(two, text(" devices 4 parallel layers"));
  EXPECT_THAT(line, HasSubstr("nodes 2 -> 1"));
  EXPECT_THAT(line, HasSubstr(other_sums));
  EXPECT_THAT(plan_change(two, text(" node 0 of 2")), HasSubstr(no_effect));
  EXPECT_THAT(plan_change(two, text(" node 0 of 4")), HasSubstr(other_sums));
  EXPECT_THAT(plan_change(text(" node 0 of 4"), text("")), HasSubstr(no_effect));  // one micro-batch each
}

TEST_F(ResumedPlan, SmallerMicroBatchesDrawOtherMasks) {
  Config smaller = of("cpu", 4);
  smaller.train.per_device_train_batch_size = 1;
  const std::string line = change(of("cpu", 2), smaller);
  EXPECT_THAT(line, HasSubstr("micro_batches 2 -> 4"));
  EXPECT_THAT(line, HasSubstr(other_sums));
  EXPECT_THAT(line, HasSubstr("dropout draws other masks"));
}

TEST_F(ResumedPlan, WithoutClippingHasOtherWeights) {
  Config unclipped = of("cpu", 2);
  unclipped.train.max_grad_norm = 0;
  const std::string line = change(of("cpu", 2), unclipped);
  EXPECT_THAT(line, HasSubstr("clipping on -> off"));
  EXPECT_THAT(line, HasSubstr("gradients are no longer clipped, which changes weights"));
  EXPECT_THAT(line, Not(HasSubstr(no_effect)));
  EXPECT_THAT(line, Not(HasSubstr("sums")));
}

}  // namespace tidepool::plan_change_test
