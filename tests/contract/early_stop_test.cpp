// Runs that end before max_steps: the reason, the result, and that stopping and resuming in between changes
// nothing. `tidepool eval` of the result gives the reported losses.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/trainer_state.h"
#include "inference/evaluate.h"
#include "tests/support/json_file.h"
#include "tests/support/train_fixture.h"

namespace tidepool::early_stop_test {

namespace fs = std::filesystem;
using test::numbers_of;
using test::TrainDir;
using ::testing::HasSubstr;

// Memorises 2 KB of text, and so gets worse on other text.
Config overfitting(const TrainDir& dir, const std::string& run) {
  Config c = test::small_config(dir, run);
  const std::string text = test::made_up_text(20'000);
  std::ofstream(dir / "few.txt") << text.substr(0, 700);
  std::ofstream(dir / "other.txt") << text.substr(9'000, 1'000);
  std::ofstream(dir / "short.txt") << text.substr(15'000, 41);
  c.data.train = {dir / "few.txt"};
  c.data.validation = {dir / "other.txt", dir / "short.txt"};
  c.train.learning_rate = 1e-2;
  c.train.lr_scheduler_type = "constant";
  c.train.max_steps = 400;
  c.train.eval_steps = 4;
  c.train.eval_batches = 0;
  c.train.early_stopping_patience = 3;
  c.output.trace = false;
  return c;
}

std::string target_of(const std::string& link) { return fs::read_symlink(link).string(); }

TEST(EarlyStop, EndsWellAndKeepsTheBest) {
  const TrainDir dir;
  const Config c = overfitting(dir, "run");
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_LT(report->steps, c.train.max_steps);
  EXPECT_THAT(report->stopped_early, HasSubstr("in 3 evaluations"));
  EXPECT_EQ(report->eval_steps.back(), report->steps);
  EXPECT_EQ(report->best_step, report->steps - 12);  // three evaluations before the end, and saved at once
  EXPECT_EQ(report->best_eval_step, report->best_step);
  EXPECT_TRUE(fs::exists(fmt::format("{}/checkpoint-{}", c.output.dir, report->steps)));
  EXPECT_EQ(target_of(c.output.dir + "/checkpoint-best"), fmt::format("checkpoint-{}", report->best_step));
  EXPECT_EQ(report->best_checkpoint, fmt::format("{}/checkpoint-{}", c.output.dir, report->best_step));
  const auto read = read_report(c.output.dir);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, *report);
}

TEST(EarlyStop, ResumedStopsAtTheSameStep) {
  const TrainDir dir;
  const auto whole = test::run(overfitting(dir, "whole"));
  ASSERT_TRUE(whole) << whole.error().message;
  // Stops between evaluations, at an evaluation, and at the evaluation that ends the run.
  const u64 last = whole->steps;
  Config c = overfitting(dir, "stopped");
  std::string resume;
  for (const u64 stop : {u64{2}, last - 12, last - 5, last - 4}) {
    const auto report = test::run(c, {.resume = resume, .stop_after = stop});
    ASSERT_FALSE(report) << stop;
    ASSERT_EQ(report.error().kind, ErrorKind::interrupted) << report.error().message;
    resume = "auto";
  }
  const auto end = test::run(c, {.resume = "auto"});
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(numbers_of(*end), numbers_of(*whole));
  EXPECT_EQ(end->stopped_early, whole->stopped_early);
  EXPECT_EQ(end->best_step, whole->best_step);
  const auto again = test::run(c, {.resume = "auto"});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->steps, 0u);
  EXPECT_EQ(again->weights_xxh3, end->weights_xxh3);
}

TEST(EarlyStop, AStopAtTheLastEvaluationIsTheEnd) {
  const TrainDir dir;
  const auto whole = test::run(overfitting(dir, "whole"));
  ASSERT_TRUE(whole) << whole.error().message;
  const auto report = test::run(overfitting(dir, "stopped"), {.stop_after = whole->steps});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(numbers_of(*report), numbers_of(*whole));
}

// Regression: a best loss on memorised text stayed the best after the held-out tokens had changed.
TEST(EarlyStop, OtherTokensRestartTheSearchForTheBest) {
  const TrainDir dir;
  Config c = overfitting(dir, "run");
  fs::copy_file(dir / "few.txt", dir / "learned.txt");
  c.data.validation = {dir / "learned.txt", dir / "other.txt"};
  c.train.early_stopping_patience = 0;
  c.train.eval_batches = 1;
  c.train.max_steps = 40;
  const auto before = test::run(c);
  ASSERT_TRUE(before) << before.error().message;
  c.train.eval_batches = 0;
  c.train.max_steps = 44;
  const auto report = test::run(c, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->best_eval_step, 44u);
  EXPECT_EQ(report->best_eval_loss, report->eval_losses.back());
  EXPECT_EQ(target_of(c.output.dir + "/checkpoint-best"), "checkpoint-44");
  const auto state = read_trainer_state(c.output.dir + "/checkpoint-44");
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->eval_losses.back().tokens, 699u + 999u);
  EXPECT_LT(state->eval_losses.front().tokens, 699u);
}

TEST(EarlyStop, NothingHeldOutIsRefused) {
  const TrainDir dir;
  Config c = overfitting(dir, "run");
  c.data.validation.clear();
  std::ofstream(dir / "few.txt") << std::string(40, 'x');
  const auto report = test::run(c);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::usage);
  EXPECT_THAT(report.error().message, HasSubstr("early_stopping_patience"));
}

// The link names the best checkpoint of the branch that is trained, or does not exist.
TEST(BestCheckpoint, FollowsTheBranch) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  c.train.max_steps = 6;
  c.train.eval_steps = c.output.save_steps = 2;
  c.output.save_total_limit = 5;
  ASSERT_TRUE(test::run(c));
  const std::string link = c.output.dir + "/checkpoint-best";
  EXPECT_EQ(target_of(link), "checkpoint-6");
  const auto back = test::run(c, {.resume = c.output.dir + "/checkpoint-4", .stop_after = 5});
  ASSERT_FALSE(back);
  EXPECT_EQ(target_of(link), "checkpoint-4");
  ASSERT_TRUE(test::run(c, {.resume = link}));  // the linked checkpoint can be resumed
  EXPECT_EQ(target_of(link), "checkpoint-6");
}

Result<Evaluation> evaluated(const std::string& source, const std::vector<std::string>& overrides = {},
                             const std::vector<std::string>& data = {}) {
  return evaluate_model({.source = source, .overrides = overrides, .data = data, .quiet = true});
}

TEST(Evaluate, GivesTheLossThatTrainingLogged) {
  const TrainDir dir;
  for (const Family family : {Family::gpt2, Family::qwen3}) {
    Config c = overfitting(dir, std::string(name(family)));
    c.model = test::small_model(family);
    c.train.max_steps = 8;
    const auto report = test::run(c);
    ASSERT_TRUE(report) << report.error().message;
    const auto last = evaluated(c.output.dir);
    ASSERT_TRUE(last) << last.error().message;
    EXPECT_NEAR(last->all.loss(), report->eval_losses.back(), 1e-12);
    EXPECT_EQ(last->all.result.targets, 999u + 40u);
    ASSERT_EQ(last->parts.size(), 2u);
    EXPECT_EQ(last->parts[1].result.targets, 40u);
    const auto best = evaluated(c.output.dir + "/checkpoint-best");
    ASSERT_TRUE(best) << best.error().message;
    EXPECT_NEAR(best->all.loss(), report->best_eval_loss, 1e-12);
    // With other budgets and other batches the loss is the same to rounding; the last batch is not full.
    const auto elsewhere = evaluated(c.output.dir, {"memory.device=600KiB", "per_device_train_batch_size=3",
                                                    "gradient_accumulation_steps=4"});
    ASSERT_TRUE(elsewhere) << elsewhere.error().message;
    EXPECT_NEAR(elsewhere->all.loss(), last->all.loss(), 1e-6);
    EXPECT_FALSE(fs::exists(c.output.dir + "/eval-swap"));
  }
}

TEST(Evaluate, TakesOtherDataAndLimits) {
  const TrainDir dir;
  const Config c = test::small_config(dir);
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;
  const auto all = evaluated(c.output.dir);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->all.sequences, 31u);  // 5 % of 20,000 bytes in rows of 32
  const auto limited = evaluated(c.output.dir, {"train.eval_batches=5"});  // as in training
  ASSERT_TRUE(limited) << limited.error().message;
  EXPECT_NEAR(limited->all.loss(), report->eval_losses.back(), 1e-12);
  std::ofstream(dir / "its other.txt") << "so we wait by rocks until it turns";
  const auto other = evaluated(c.output.dir, {}, {dir / "its other.txt"});
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->all.result.targets, 33u);
}

TEST(Evaluate, NamesMissingInputs) {
  const TrainDir dir;
  const auto refusal = [&](const std::string& source, const std::vector<std::string>& overrides = {}) {
    const auto done = evaluated(source, overrides);
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::usage);
    return done.error().message;
  };
  EXPECT_THAT(refusal(dir / "none"), HasSubstr("does not exist"));
  fs::create_directory(dir / "empty");
  EXPECT_THAT(refusal(dir / "empty"), HasSubstr("holds no checkpoint"));
  Config c = test::small_config(dir);
  std::ofstream(dir / "c.yaml") << to_yaml(c);
  EXPECT_THAT(refusal(dir / "c.yaml"), HasSubstr("train first"));
  ASSERT_TRUE(test::run(c));
  EXPECT_THAT(refusal(c.output.dir, {"validation_fraction=0"}), HasSubstr("no data is held out"));
}

// Regression: the message named data.train and data.validation, which the user had not set.
TEST(Evaluate, MessagesNameTheGivenData) {
  const TrainDir dir;
  const Config c = test::small_config(dir);
  ASSERT_TRUE(test::run(c));
  const auto nope = evaluated(c.output.dir, {}, {dir.data(), "nope"});
  ASSERT_FALSE(nope);
  EXPECT_EQ(nope.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(nope.error().message, HasSubstr("correct data=nope"));

  const std::string model = dir / "model";
  fs::copy(c.output.dir + "/checkpoint-4", model);
  fs::remove(model + "/manifest.json");  // an ordinary model directory
  const auto bare = evaluated(model);
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().kind, ErrorKind::usage);
  EXPECT_THAT(bare.error().message, HasSubstr("name files to evaluate on with data=FILE"));
  const auto no_budget = evaluated(model, {}, {dir.data()});
  ASSERT_FALSE(no_budget);
  EXPECT_THAT(no_budget.error().message, HasSubstr("or memory.device=2GiB to the command"));
  const std::vector<std::string> rest = {"memory.device=16MiB", "memory.host=16MiB", "sequence_length=32",
                                         "output.dir=" + (dir / "out")};
  const auto done = evaluated(model, rest, {dir.data()});
  ASSERT_TRUE(done) << done.error().message;
  std::vector<std::string> by_key = rest;
  by_key.push_back("data.validation=" + dir.data());
  const auto same = evaluated(model, by_key);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->all.result.targets, done->all.result.targets);
}

}  // namespace tidepool::early_stop_test
