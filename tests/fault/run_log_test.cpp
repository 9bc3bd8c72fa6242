// run.log has what the terminal showed, and a run does not depend on it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <sstream>

#include "checkpoint/checkpoint.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"
#include "tests/support/small_disk.h"
#include "tests/support/train_fixture.h"

namespace tidepool::run_log_test {

using test::file_text;
using test::TrainDir;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = 0;
  std::string output, errors;
};

class RunLogFile : public ::testing::Test {
 protected:
  Outcome train(const Config& config, const std::string& words = "", const std::string& environment = "") {
    const std::string file = dir_ / "run.yaml", out = dir_ / "out.txt", errors = dir_ / "errors.txt";
    std::ofstream(file) << to_yaml(config);
    const int status = std::system(fmt::format("{} '{}' train '{}' {} >'{}' 2>'{}'", environment,
                                               program_file(), file, words, out, errors)
                                       .c_str());
    return {WEXITSTATUS(status), file_text(out), file_text(errors)};
  }
  std::string log() const { return file_text(dir_ / "run/run.log"); }

  const TrainDir dir_;
};

// Lines of a table are padded to the screen, which a log does not have.
std::vector<std::string> sentences(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != ' ') out.push_back(line);
  return out;
}

TEST_F(RunLogFile, HasWhatTheTerminalShowsAndMore) {
  const Config config = test::small_config(dir_);
  const Outcome first = train(config);
  ASSERT_EQ(first.code, 0) << first.errors;
  for (const std::string& line : sentences(first.output)) EXPECT_THAT(log(), HasSubstr(line));
  EXPECT_THAT(log(), HasSubstr("commit "));
  EXPECT_THAT(log(), HasSubstr(" debug   step 1 took "));
  // A second process appends.
  const Outcome again = train(config, "--resume auto train.max_steps=6 --log-level info");
  ASSERT_EQ(again.code, 0) << again.errors;
  for (const std::string& line : sentences(first.output + again.output)) EXPECT_THAT(log(), HasSubstr(line));
  EXPECT_THAT(log(), Not(HasSubstr("step 5 took")));
}

TEST_F(RunLogFile, HasTheErrorThatEndedTheRun) {
  Config config = test::small_config(dir_);
  config.train.learning_rate = 1e6;
  config.train.warmup_steps = 0;
  config.train.max_grad_norm = 0;
  const Outcome outcome = train(config);
  ASSERT_EQ(outcome.code, 7) << outcome.output;
  EXPECT_THAT(log(), ::testing::ContainsRegex(" error   .*step"));
}

TEST_F(RunLogFile, FollowsTheOptionOrElseTheVariable) {
  const Config config = test::small_config(dir_);
  EXPECT_EQ(train(config, "", "TIDEPOOL_LOG_LEVEL=off").code, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/run.log"));
  EXPECT_EQ(train(config, "--log-level=warn").code, 2);
  EXPECT_EQ(train(config, "", "TIDEPOOL_LOG_LEVEL=loud").code, 2);
  const Outcome option =
      train(config, "--resume auto train.max_steps=5 --log-level=info", "TIDEPOOL_LOG_LEVEL=loud");
  EXPECT_EQ(option.code, 0) << option.errors;
  EXPECT_THAT(log(), HasSubstr("resumed from "));
}

TEST_F(RunLogFile, OnAFullDiskLacksLinesAndTheRunContinues) {
  test::SmallDisk disk(dir_ / "run", "2m");
  if (!disk.mounted()) GTEST_SKIP() << "SKIPPED: mounting a small file system needs root and CAP_SYS_ADMIN";
  Config config = test::small_config(dir_);
  config.output.save = false;
  config.train.max_steps = 1500;
  std::ofstream(dir_ / "run/filler") << std::string(2'200'000, '.');
  std::filesystem::resize_file(dir_ / "run/filler",
                               std::filesystem::file_size(dir_ / "run/filler") - 120'000);
  const Outcome outcome = train(config);
  EXPECT_THAT(outcome.output, HasSubstr("step 1500/1500"));
  EXPECT_THAT(outcome.errors,
              ::testing::ContainsRegex("WARNING: .*/run.log is not complete: [0-9]+ lines could "
                                       "not be written: .*No space left on device"));
}

}  // namespace tidepool::run_log_test
