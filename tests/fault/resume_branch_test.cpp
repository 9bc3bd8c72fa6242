// Tests which branch, which checkpoint and which files a resume uses, and what it leaves unchanged.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text/hash.h"
#include "checkpoint/trainer_state.h"
#include "fit/job.h"
#include "report/run_report.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::resume_branch_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::file_text;
using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ResumeBranch : public ::testing::Test {
 protected:
  Config config(u64 max_steps, u64 save_steps = 2) const {
    Config c = test::small_config(dir_);
    c.train.max_steps = max_steps;
    c.train.lr_scheduler_type = "constant";
    c.output.save_steps = save_steps;
    return c;
  }
  std::string checkpoint(u64 step, const std::string& mark = "") const {
    return fmt::format("{}/checkpoint-{}{}", dir_ / "run", step, mark);
  }
  Result<RunReport> resume(const Config& c, const std::string& from = "auto") {
    return test::run(c, {.resume = from});
  }
  std::string output(const Config& c, const std::string& resume, int code) {
    ChildRun child(c, resume);
    EXPECT_EQ(child.wait(), code) << child.output();
    return child.output();
  }
  TrainerState state_of(u64 step) const {
    const std::string path = checkpoint(step) + "/" + trainer_state_file;
    return parse_trainer_state(file_text(path), path).value();
  }
  void flip_a_bit(const std::string& path) {
    std::string text = file_text(path);
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 4);
    std::ofstream(path, std::ios::binary) << text;
  }
  const TrainDir dir_;
};

// ---- stepping back

TEST_F(ResumeBranch, AutoFollowsTheBranchThatSteppedBack) {
  ASSERT_TRUE(test::run(config(8)));
  Config slower = config(7);
  slower.train.learning_rate = 1e-5;
  const std::string said = output(slower, checkpoint(6), 0);
  EXPECT_THAT(said, HasSubstr(checkpoint(8, ".abandoned")));
  EXPECT_TRUE(fs::exists(checkpoint(7)));
  const auto on = resume(config(10));
  ASSERT_TRUE(on) << on.error().message;
  EXPECT_EQ(on->resumed_from_step, 7u);
  EXPECT_TRUE(fs::exists(checkpoint(10)));
  EXPECT_TRUE(fs::exists(checkpoint(8, ".abandoned"))) << "the other branch is not ours to delete";
}

TEST_F(ResumeBranch, AnAbandonedBranchCanBeResumed) {
  ASSERT_TRUE(test::run(config(4)));
  const auto state = state_of(4);
  ASSERT_TRUE(resume(config(3), checkpoint(2)));
  ASSERT_TRUE(fs::exists(checkpoint(4, ".abandoned")));
  const auto back = resume(config(5), checkpoint(4, ".abandoned/"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->resumed_from_step, 4u);
  EXPECT_FALSE(fs::exists(checkpoint(4, ".abandoned")));
  EXPECT_EQ(state_of(4), state);
}

// ---- changed training settings

TEST_F(ResumeBranch, AnotherLearningRateAndWeightDecayAreNamedOldAndNew) {
  ASSERT_TRUE(test::run(config(4)));
  Config other = config(6);
  other.train.learning_rate = 2e-3;
  other.train.weight_decay = 0;
  const std::string said = output(other, "auto", 0);
  EXPECT_THAT(said, AllOf(HasSubstr("train.learning_rate: 0.005 then, 0.002 now"),
                          HasSubstr("train.weight_decay: 0.1 then, 0 now"),
                          HasSubstr("train.max_steps: 4 then, 6 now"),
                          HasSubstr("learning rate of step 5: 0.002; with the checkpoint's settings 0.005")));
  EXPECT_THAT(output(config(6), "auto", 0),
              AllOf(HasSubstr("nothing to do"), HasSubstr("0.002 then, 0.005 now")));
  EXPECT_THAT(output(config(8), checkpoint(6), 0), HasSubstr("train.learning_rate: 0.002 then, 0.005 now"));
}

// Regression: the plan came first, so a model that could not be resumed was refused with "does not fit" only.
TEST_F(ResumeBranch, AModelOfAnotherSizeIsTrainedOtherwiseBeforeItDoesNotFit) {
  ASSERT_TRUE(test::run(config(4)));
  Config large = config(6);
  large.model.width = 1024, large.model.layers = 30;
  ASSERT_EQ(test::run(large, {.resume = ""}).error().kind, ErrorKind::does_not_fit);
  for (const std::string& from : {std::string("auto"), checkpoint(4)}) {
    const auto report = resume(large, from);
    ASSERT_FALSE(report) << from;
    EXPECT_EQ(report.error().kind, ErrorKind::usage);
    EXPECT_THAT(report.error().message,
                AllOf(HasSubstr("was trained with other settings: "), HasSubstr("n_embd is 64")));
  }
  Config halves = config(6);
  halves.train.precision = Precision::bf16;
  halves.memory.budgets.host = Bytes{64 * kib};
  EXPECT_THAT(resume(halves).error().message, HasSubstr("train.precision is fp32 there and bf16 here"));
}

// A damaged config.json does not say how the run was trained, so the checkpoint is skipped.
TEST_F(ResumeBranch, ADamagedConfigOfACheckpointIsNoOtherModel) {
  ASSERT_TRUE(test::run(config(4)));
  const std::string path = checkpoint(4) + "/config.json";
  std::string text = file_text(path);
  text.replace(text.find("64"), 2, "96");
  std::ofstream(path, std::ios::binary) << text;
  const auto report = resume(config(6));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->resumed_from_step, 2u);
}

// ---- none is left

TEST_F(ResumeBranch, WithoutAGoodCheckpointEachIsNamedInTheError) {
  ASSERT_TRUE(test::run(config(4)));
  flip_a_bit(checkpoint(2) + "/optimizer.safetensors");
  fs::remove(checkpoint(4) + "/manifest.json");
  const auto report = resume(config(6));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::corrupt_checkpoint);
  EXPECT_THAT(report.error().message, AllOf(HasSubstr(checkpoint(4) + "/manifest.json"),
                                            HasSubstr(checkpoint(2) + "/optimizer.safetensors")));
  EXPECT_TRUE(fs::exists(checkpoint(4) + "/model.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint(6)));
}

TEST_F(ResumeBranch, AnotherVersionIsAnErrorAndNotSkipped) {
  ASSERT_TRUE(test::run(config(4)));
  const std::string path = checkpoint(4) + "/manifest.json";
  std::string text = file_text(path);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 9");
  text.resize(text.find("  \"xxh3_of_the_lines_above\""));
  text += fmt::format("  \"xxh3_of_the_lines_above\": \"{}\"\n}}\n", hash_text(hash_of(text)));
  std::ofstream(path, std::ios::binary) << text;
  for (const std::string& from : {std::string("auto"), checkpoint(4)}) {
    const auto report = resume(config(6), from);
    ASSERT_FALSE(report) << from;
    EXPECT_EQ(report.error().kind, ErrorKind::corrupt_checkpoint);
    EXPECT_THAT(report.error().message, HasSubstr("version 9"));
  }
}

// ---- nothing to do

TEST_F(ResumeBranch, AFinishedRunIsLeftAsItIs) {
  ASSERT_TRUE(test::run(config(4)));
  const auto snapshot = [&] {
    std::map<std::string, std::pair<fs::file_time_type, std::string>> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "run"))
      if (entry.is_regular_file()) files[entry.path()] = {entry.last_write_time(), file_text(entry.path())};
    return files;
  };
  const auto files = snapshot();
  EXPECT_THAT(output(config(4), "auto", 0), HasSubstr("nothing to do: step 4 of 4; raise train.max_steps"));
  EXPECT_THAT(output(config(3), "auto", 0), HasSubstr("nothing to do: step 4 of 3; raise train.max_steps"));
  EXPECT_THAT(output(config(2), checkpoint(2), 0), HasSubstr("nothing to do: step 2 of 2"));
  EXPECT_EQ(snapshot(), files);
}

// The run was killed between its last save and its report.
TEST_F(ResumeBranch, AMissingReportOfAFinishedRunIsWritten) {
  ASSERT_TRUE(test::run(config(4)));
  fs::remove(dir_ / "run/report.json");
  const auto saved = fs::last_write_time(checkpoint(4));
  ASSERT_TRUE(resume(config(4)));
  EXPECT_TRUE(read_report(dir_ / "run"));
  EXPECT_EQ(fs::last_write_time(checkpoint(4)), saved) << "written again";
}

// ---- typed arguments

TEST_F(ResumeBranch, AMissingCheckpointIsAUsageError) {
  ASSERT_TRUE(test::run(config(4)));
  for (const std::string& from : {dir_ / "run/checkpoint-3", dir_ / "nosuch", dir_ / "run", dir_.data()}) {
    const auto report = resume(config(6), from);
    ASSERT_FALSE(report) << from;
    EXPECT_EQ(report.error().kind, ErrorKind::usage) << report.error().message;
  }
  EXPECT_THAT(resume(config(6), dir_ / "run/checkpoint-3").error().message,
              HasSubstr("has checkpoint-2 and checkpoint-4"));
}

// ---- room for checkpoints

TEST_F(ResumeBranch, AFileSizeLimitIsFoundBeforeTheFirstStep) {
  Config c = config(4);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit low{.rlim_cur = 500 * kib, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto report = test::run(c);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::io);
  EXPECT_THAT(report.error().message, AllOf(HasSubstr("500.00 KiB"), HasSubstr("ulimit -f unlimited")));
  EXPECT_EQ(file_text(dir_ / "run/metrics.jsonl"), "");
}

// ---- the best

TEST_F(ResumeBranch, TheFirstSavedAfterTheBestEvaluationIsKept) {
  Config c = config(14);
  c.train.eval_steps = 3;
  ASSERT_FALSE(test::run(c, {.stop_after = 4}));
  c.train.learning_rate = 0.5;  // worse from here on
  const auto report = resume(c);
  ASSERT_TRUE(report) << report.error().message;
  const auto best = std::ranges::min_element(report->eval_losses) - report->eval_losses.begin();
  ASSERT_EQ(report->eval_steps[static_cast<u64>(best)], 3u);
  EXPECT_TRUE(fs::exists(checkpoint(4)));
  EXPECT_FALSE(fs::exists(checkpoint(12)));
  EXPECT_TRUE(fs::exists(checkpoint(14)));
  EXPECT_EQ(state_of(14).best_step, 4u);
  EXPECT_EQ(report->best_step, 4u);
  EXPECT_EQ(report->best_eval_step, 3u);
  EXPECT_EQ(report->best_eval_loss, report->eval_losses[static_cast<u64>(best)]);
}

// ---- rates

TEST_F(ResumeBranch, PaddingIsNotCountedAsTokens) {
  std::ofstream(dir_.data()) << std::string(test::made_up_text(65), 0, 65);
  Config c = config(4);
  c.data.validation_fraction = 0;
  c.train.gradient_accumulation_steps = 2;  // half of a step is padding
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;
  const double trained = static_cast<double>(state_of(4).tokens);
  EXPECT_LT(trained, 4.0 * static_cast<double>(report->tokens_per_step));
  EXPECT_NEAR(report->tokens_per_second * report->train_seconds, trained, 1e-6 * trained);
  EXPECT_DOUBLE_EQ(report->flops_per_second / report->tokens_per_second,
                   static_cast<double>(make_job(c)->graph.flops_per_token));
}

}  // namespace tidepool::resume_branch_test
