// train.num_train_epochs: the length of a run, as stated and as run.
#include <gmock/gmock.h>

#include "cli/cli.h"
#include "config_files/load_config.h"
#include "run/train_length.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::epochs_test {

using test::file_text;
using ::testing::HasSubstr;
using ::testing::Not;

TrainConfig by_epochs(double epochs) { return {.max_steps = steps_by_epochs, .num_train_epochs = epochs}; }

TEST(TrainLength, StepsAreEpochsRoundedUp) {
  EXPECT_EQ(steps_to_train(by_epochs(3), 71).value(), 213u);
  EXPECT_EQ(steps_to_train(by_epochs(0.5), 71).value(), 36u);
  EXPECT_EQ(steps_to_train(by_epochs(1e-6), 71).value(), 1u);
  EXPECT_EQ(steps_to_train(by_epochs(1), 1).value(), 1u);
  EXPECT_EQ(steps_to_train(by_epochs(1e9), 1'000'000'000).error().kind, ErrorKind::usage);
}

TEST(TrainLength, StepsWinOverEpochsWithANote) {
  const TrainConfig both{.max_steps = 10, .num_train_epochs = 3};
  EXPECT_EQ(steps_to_train(both, 71).value(), 10u);
  EXPECT_THAT(train_length_text(both, 71),
              HasSubstr("10 steps are 0.141 epochs of 71 steps: train.max_steps overrides "
                        "train.num_train_epochs 3"));
  EXPECT_EQ(train_length_text(by_epochs(3), 71), "213 steps are 3 epochs of 71 steps");
  EXPECT_EQ(train_length_text({.max_steps = 142}, 71), "142 steps are 2 epochs of 71 steps");
  EXPECT_EQ(train_length_text({.max_steps = 100'000}, 89), "100000 steps are 1.12k epochs of 89 steps");
}

Result<Config> parsed(const std::string& train, const std::vector<std::string>& overrides = {}) {
  return parse_config("data: {train: a.txt}\nmemory: {device: 1GiB, host: 1GiB}\ntrain: {" + train + "}\n",
                      "c.yaml", overrides);
}

TEST(TrainLength, EpochsCountIfStepsAreNotSet) {
  EXPECT_EQ(parsed("seed: 1")->train.max_steps, 100u);
  EXPECT_EQ(parsed("num_train_epochs: 2")->train.max_steps, steps_by_epochs);
  EXPECT_EQ(parsed("seed: 1", {"num_train_epochs=0.5"})->train.max_steps, steps_by_epochs);
  EXPECT_EQ(parsed("num_train_epochs: 2, max_steps: 7")->train.max_steps, 7u);
  EXPECT_EQ(parsed("max_steps: 7", {"num_train_epochs=2"})->train.max_steps, 7u);
  EXPECT_EQ(parsed("max_steps: 7", {"num_train_epochs=2", "max_steps=auto"})->train.max_steps,
            steps_by_epochs);
  EXPECT_THAT(parsed("max_steps: auto").error().message, HasSubstr("num_train_epochs, which is not set"));
  const Config config = parsed("num_train_epochs: 2.5").value();
  EXPECT_EQ(parse_config(to_yaml(config), "again.yaml", {}).value(), config);
}

class TrainEpochs : public ::testing::Test {
 protected:
  Config config(double epochs) const {
    Config c = test::small_config(dir_);
    c.train.max_steps = steps_by_epochs;
    c.train.num_train_epochs = epochs;
    c.train.gradient_accumulation_steps = 16;
    return c;
  }
  test::TrainDir dir_;
};

TEST_F(TrainEpochs, ARunIsAsLongAsItsStepsSay) {
  const auto report = test::run(config(1.5));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->steps_per_epoch, 3u);
  EXPECT_EQ(report->steps, (report->steps_per_epoch * 3 + 1) / 2);
  EXPECT_EQ(report->each_grad_norm.size(), report->steps);
  EXPECT_EQ(report->each_learning_rate.size(), report->steps);
  Config by_steps = config(0);
  by_steps.train.max_steps = report->steps;
  by_steps.output.dir = dir_ / "by_steps";
  EXPECT_EQ(test::train_numbers(by_steps), test::numbers_of(*report)) << "the schedule is of all steps";
  EXPECT_THAT(file_text(dir_ / "run/config.yaml"), HasSubstr("max_steps: auto"));
}

TEST_F(TrainEpochs, AResumedRunMayTrainForMoreOfThem) {
  const auto first = test::run(config(1));
  ASSERT_TRUE(first) << first.error().message;
  const auto more = test::run(config(2), {.resume = "auto"});
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->steps, first->steps);
  EXPECT_EQ(more->losses.size(), 2 * first->steps);
}

TEST_F(TrainEpochs, PlanSaysHowManyStepsAnEpochHas) {
  const Config c = config(2);
  std::ofstream(dir_ / "c.yaml") << to_yaml(c);
  test::Child plan({"plan", dir_ / "c.yaml"}, dir_ / "plan.log");
  ASSERT_EQ(plan.wait(), 0) << plan.output();
  EXPECT_THAT(plan.output(), HasSubstr(" steps are 2 epochs of "));
  test::Child json({"plan", dir_ / "c.yaml", "--json"}, dir_ / "json.log");
  ASSERT_EQ(json.wait(), 0) << json.output();
  EXPECT_THAT(json.output(), HasSubstr("\"steps_per_epoch\": "));
  EXPECT_FALSE(std::ifstream(dir_ / "run/config.yaml").good());

  std::remove(c.data.train[0].c_str());  // planned before the data exists
  test::Child without({"plan", dir_ / "c.yaml"}, dir_ / "plan.log");
  ASSERT_EQ(without.wait(), 0) << without.output();
  EXPECT_THAT(without.output(), Not(HasSubstr("epoch")));
}

}  // namespace tidepool::epochs_test
