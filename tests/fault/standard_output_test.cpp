// Standard output on a full disk, closed, or without a reader: reported in one line, with exit code 6.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>

#include "checkpoint/checkpoint.h"
#include "tests/support/child_run.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::standard_output_test {

using test::TrainDir;
using ::testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string error;
};

// Runs `tidepool WORDS` in a shell, with its output redirected by `redirection`.
Outcome tidepool_to(const TrainDir& dir, const std::string& redirection, const std::string& words) {
  const std::string log = dir / "stderr.txt";
  const int status =
      std::system(fmt::format("'{}' {} {} 2>'{}'", program_file(), words, redirection, log).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), test::file_text(log)};
}

std::string config_file(const TrainDir& dir) {
  const std::string path = dir / "run.yaml";
  std::ofstream(path) << to_yaml(test::small_config(dir));
  return path;
}

TEST(StandardOutput, IfFullIsReportedOnceWithExitCode6) {
  const TrainDir dir;
  const std::string config = config_file(dir);
  for (const std::string& words :
       {"plan '" + config + "'", "plan --text '" + config + "'", "config '" + config + "'",
        std::string("config"), std::string("--help"), std::string("--version")}) {
    SCOPED_TRACE(words);
    const Outcome full = tidepool_to(dir, ">/dev/full", words);
    EXPECT_EQ(full.code, 6);
    EXPECT_EQ(full.error, "tidepool: cannot write to standard output: No space left on device (ENOSPC)\n");
  }
}

TEST(StandardOutput, TrainingContinuesWithoutIt) {
  const TrainDir dir;
  const Outcome full = tidepool_to(dir, ">/dev/full", "train '" + config_file(dir) + "'");
  EXPECT_EQ(full.code, 6) << full.error;
  EXPECT_THAT(full.error, HasSubstr("training continues"));
  EXPECT_EQ(full.error.find("training continues"), full.error.rfind("training continues")) << full.error;
  EXPECT_EQ(checkpoint_steps(dir / "run").value(), (std::vector<u64>{4}));
  EXPECT_TRUE(read_report(dir / "run"));
}

TEST(StandardOutput, IfFullAlongWithStandardErrorIsExitCode6) {
  const TrainDir dir;
  const std::string config = config_file(dir);
  const auto code = [](const std::string& words) {
    return WEXITSTATUS(
        std::system(fmt::format("'{}' {} >/dev/full 2>/dev/full", program_file(), words).c_str()));
  };
  EXPECT_EQ(code("train '" + config + "'"), 6);
  EXPECT_EQ(checkpoint_steps(dir / "run").value(), (std::vector<u64>{4}));
  EXPECT_TRUE(read_report(dir / "run"));
  EXPECT_EQ(code("eval '" + (dir / "run") + "'"), 6);
  EXPECT_EQ(code("export '" + (dir / "run") + "' '" + (dir / "out") + "'"), 6);
}

// Regression: a closed standard output was ignored.
TEST(StandardOutput, IfClosedIsExitCode6) {
  const TrainDir dir;
  const std::string config = config_file(dir), run = dir / "run";
  ASSERT_EQ(tidepool_to(dir, ">/dev/null", "train '" + config + "'").code, 0);
  for (const std::string& words :
       {"plan '" + config + "'", "config '" + config + "'", std::string("--version"), "eval '" + run + "'",
        "eval --json '" + run + "'", "generate --max-new-tokens=2 '" + run + "'"}) {
    for (const char* redirection : {">&-", ">/dev/full"}) {
      SCOPED_TRACE(words + redirection);
      const Outcome lost = tidepool_to(dir, redirection, words);
      EXPECT_EQ(lost.code, 6);
      EXPECT_THAT(lost.error, HasSubstr("tidepool: cannot write to standard output"));
    }
  }
}

// Text must not be written to files that receive the number of a closed stream.
TEST(StandardOutput, IfClosedTrainingContinues) {
  const TrainDir dir;
  const Outcome closed = tidepool_to(dir, ">&-", "train '" + config_file(dir) + "'");
  EXPECT_EQ(closed.code, 6) << closed.error;
  EXPECT_THAT(closed.error, HasSubstr("training continues"));
  EXPECT_EQ(checkpoint_steps(dir / "run").value(), (std::vector<u64>{4}));
  EXPECT_EQ(test::file_text(dir / "run/metrics.jsonl").find("Tidepool plan"), std::string::npos);
}

// `train | head`: a reader that leaves must not end a run.
TEST(StandardOutput, AReaderThatLeavesEndsNoTraining) {
  const TrainDir dir;
  std::FILE* pipe = ::popen(
      fmt::format("exec '{}' train '{}' 2>'{}'", program_file(), config_file(dir), dir / "e").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  const int status = ::pclose(pipe);  // closes the reader's end first, then waits
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 6) << status << test::file_text(dir / "e");
  EXPECT_EQ(checkpoint_steps(dir / "run").value(), (std::vector<u64>{4}));
}

}  // namespace tidepool::standard_output_test
