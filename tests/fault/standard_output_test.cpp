// Standard output on a full disk, closed, or without a reader: reported in one line, with exit code 6.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/pipe_ends.h"
#include "tests/support/places.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/train_fixture.h"

namespace tidepool::standard_output_test {

using test::Child;
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

// ---- Standard output that is open, and not read

enum class Unread : u8 { output, error, both_in_one_pipe, terminal };

class UnreadStream : public ::testing::TestWithParam<Unread> {
 protected:
  // Holds 64 KiB of lines after some hundred steps.
  Config config() const {
    Config c = test::small_config(dir_);
    c.train.max_steps = 1'000'000;
    c.output.save_steps = 0;
    c.output.logging_steps = 1;
    return c;
  }
  Child::Streams streams() const {
    if (GetParam() == Unread::terminal) return {slave_.get(), slave_.get()};
    const int pipe = unread_.writer.get(), nowhere = null_.get();
    if (GetParam() == Unread::both_in_one_pipe) return {pipe, pipe};
    return GetParam() == Unread::output ? Child::Streams{pipe, nowhere} : Child::Streams{nowhere, pipe};
  }
  // RETURNS: false if the process ends first.
  bool wait_for_steps(Child& child, const Config& c, u64 steps) const {
    const auto logged = [&] {
      const std::string text = test::file_text(c.output.dir + "/metrics.jsonl");
      return static_cast<u64>(std::ranges::count(text, '\n'));
    };
    while (logged() < steps) {
      if (child.ended()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return !child.ended();
  }

  const TrainDir dir_;
  test::PipeEnds unread_;
  const Fd null_{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  test::PseudoTerminal terminal_{{.columns = 80, .rows = 24}, test::TerminalEmulator::OnResize::cut};
  const Fd slave_{::open(terminal_.path().c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC)};
};

// Regression: a training stood still after 64 KiB of lines, and SIGTERM neither ended nor saved it.
TEST_P(UnreadStream, HoldsNoStepAndOneSigtermSaves) {
  const Config c = config();
  std::ofstream(dir_ / "c.yaml") << to_yaml(c);
  if (GetParam() == Unread::terminal) terminal_.stop();
  Child child({"train", dir_ / "c.yaml"}, streams());
  ASSERT_TRUE(wait_for_steps(child, c, 900));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 75);
  const std::vector<u64> saved = checkpoint_steps(c.output.dir).value();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_GE(saved[0], 900u);
  if (GetParam() == Unread::terminal) return;
  // The last lines wait in the pipe for a reader, although the process has ended.
  const std::string said = unread_.read_all();
  if (GetParam() != Unread::error) {
    EXPECT_NE(said.find(" lines left out here: nobody read them in time)\n"), std::string::npos);
    EXPECT_NE(said.find(fmt::format("saved {}/checkpoint-{}", c.output.dir, saved[0])), std::string::npos);
    EXPECT_NE(said.find("Weights: xxh3 "), std::string::npos) << "the report";
  }
  if (GetParam() != Unread::output) {
    EXPECT_NE(said.find(fmt::format("interrupted after step {}", saved[0])), std::string::npos);
  }
}

std::string name_of_unread(const ::testing::TestParamInfo<Unread>& info) {
  constexpr std::array names = {"Output", "Error", "BothInOnePipe", "StoppedTerminal"};
  return names[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Streams, UnreadStream,
                         ::testing::Values(Unread::output, Unread::error, Unread::both_in_one_pipe,
                                           Unread::terminal),
                         name_of_unread);

// Commands whose output is data wait for their reader and lose nothing. Regression: SIGUSR1 ended every
// process that did not train yet.
TEST(StandardOutput, OfDataWaitsForItsReaderAndSigusr1EndsNothing) {
  const TrainDir dir;
  std::ofstream(dir / "c.yaml") << to_yaml(test::small_config(dir));
  const std::vector<std::string> words = {"plan", "--text", dir / "c.yaml", "n_layer=60"};
  Child to_file(words, dir / "text");
  ASSERT_EQ(to_file.wait(), 0) << to_file.output();
  ASSERT_GT(to_file.output().size(), 2 * 64 * kib) << "more than a pipe holds";
  test::PipeEnds pipe;
  Child to_pipe(words, Child::Streams{pipe.writer.get(), 2});
  while (pipe.unread_bytes() < 60'000 && !to_pipe.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  to_pipe.signal(SIGUSR1);
  EXPECT_TRUE(pipe.read_all() == to_file.output());
  EXPECT_EQ(to_pipe.wait(), 0);
}

}  // namespace tidepool::standard_output_test
