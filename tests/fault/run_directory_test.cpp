// Guarantees of a run directory: one run at a time, and no run destroys another.
#include "run/directory/run_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "base/version.h"
#include "checkpoint/trainer_state.h"
#include "report/run_report.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::run_directory_test {

namespace fs = std::filesystem;
using test::file_text;
using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RunDirectory, HoldsOneLiveRun) {
  const TrainDir dir;
  const Config config = test::small_config(dir);
  {
    const auto other = RunDirectory::open(config.output.dir);
    ASSERT_TRUE(other) << other.error().message;
    const auto report = test::run(config);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::io);
    EXPECT_THAT(report.error().message,
                HasSubstr(fmt::format("{} is in use by the job with pid {}", config.output.dir, getpid())));
  }
  test::train_numbers(config);
  EXPECT_FALSE(fs::exists(config.output.dir + "/" + run_lock_name)) << "left behind";
}

// The directory's notes count only under the lock: its holder may train on.
TEST(RunDirectory, IsLockedBeforeItIsLookedAt) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.home = HomePolicy::disk;
  fs::create_directories(config.output.dir);
  std::ofstream(config.output.dir + "/branch.json") << "no JSON";
  const auto other = RunDirectory::open(config.output.dir);
  ASSERT_TRUE(other) << other.error().message;
  const auto report = test::run(config, {.resume = "auto"});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("is in use by the job with pid"));
}

TEST(RunDirectory, AFileOrAnEmptyNameIsRefusedWithAdvice) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  fs::create_symlink(dir / "nowhere", dir / "link");
  for (const auto& [name, says] : {std::pair<std::string, std::string>{"", "output.dir is empty"},
                                   {dir.data(), dir.data() + " is not a directory"},
                                   {dir.data() + "/run", " is below " + dir.data() + ", which is not a dir"},
                                   {dir / "link", dir / "link is a link that leads nowhere"}}) {
    config.output.dir = name;
    const auto report = test::run(config);
    ASSERT_FALSE(report) << name;
    EXPECT_EQ(report.error().kind, ErrorKind::usage) << name;
    EXPECT_THAT(report.error().message, AllOf(HasSubstr(says), HasSubstr("; name a directory")));
  }
}

TEST(RunDirectory, RefusedResumeLeavesConfigAndPlan) {
  const TrainDir dir;
  const Config config = test::small_config(dir);
  ASSERT_FALSE(test::run(config, {.stop_after = 2}));
  const std::string yaml = file_text(config.output.dir + "/config.yaml");
  const std::string plan = file_text(config.output.dir + "/plan.txt");
  ASSERT_FALSE(yaml.empty());
  Config other = config;
  other.model.layers = 2;
  ASSERT_FALSE(test::run(other, {.resume = "auto"}));
  EXPECT_EQ(file_text(config.output.dir + "/config.yaml"), yaml);
  EXPECT_EQ(file_text(config.output.dir + "/plan.txt"), plan);
}

TEST(RunDirectory, SecondsAccumulateAcrossAResume) {
  const TrainDir dir;
  const Config config = test::small_config(dir);
  const auto seconds_at = [&](u64 step) {
    const std::string path = fmt::format("{}/checkpoint-{}/{}", config.output.dir, step, trainer_state_file);
    return parse_trainer_state(file_text(path), path).value().seconds;
  };
  ASSERT_FALSE(test::run(config, {.stop_after = 2}));
  const double before = seconds_at(2);
  EXPECT_GT(before, 0.0);
  const auto report = test::run(config, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_DOUBLE_EQ(seconds_at(4), before + report->train_seconds);
}

// A report may be read when the machine and the sources no longer exist.
TEST(RunDirectory, ReportSaysWhatRanWhere) {
  const TrainDir dir;
  auto report = test::run(test::small_config(dir));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->version, version());
  EXPECT_THAT(report->commit, ::testing::MatchesRegex("[0-9a-f]{12}|unknown"));
  for (const char* key : {"workers", "memory", "file_system"}) EXPECT_NE(report->machine[key], "") << key;
  const auto read = read_report(dir / "run");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->machine, report->machine);
}

// The checkpoint may be readable again later: skipping it would repeat its steps and rotate it away.
TEST(RunDirectory, AnUnreadableCheckpointIsNotSkipped) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.output.save_steps = 2;
  test::train_numbers(config);
  const std::string model = config.output.dir + "/checkpoint-4/model.safetensors";
  fs::rename(model, model + ".away");
  fs::create_symlink(std::string(300, 'x'), model);  // opening fails, but not because the file is missing
  const auto report = test::run(config, {.resume = "auto"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::io);
  EXPECT_THAT(report.error().message, HasSubstr(model));
  EXPECT_THAT(report.error().message, HasSubstr("--resume PATH"));
  fs::rename(model + ".away", model);
  EXPECT_TRUE(test::run(config, {.resume = "auto"}));
}

}  // namespace tidepool::run_directory_test
