// Views of a run while it trains: on a terminal that is resized, and by `tidepool report`.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "report/run_report.h"
#include "report/terminal.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/train_fixture.h"

namespace tidepool::live_run_test {

using test::Child;
using test::ChildRun;
using test::file_text;
using test::PseudoTerminal;
using test::TerminalEmulator;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Steps take some milliseconds, so that a test can act in the middle of a run.
Config long_config(const test::TrainDir& dir, u64 steps) {
  Config c = test::small_config(dir);
  c.train.max_steps = steps;
  c.train.gradient_accumulation_steps = 4;
  c.output.logging_steps = 10;
  return c;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

u64 count(const std::vector<std::string>& lines, const std::string& part) {
  return static_cast<u64>(std::ranges::count_if(
      lines, [&](const std::string& line) { return line.find(part) != std::string::npos; }));
}

class LiveRun : public ::testing::TestWithParam<TerminalEmulator::OnResize> {
 protected:
  LiveRun() {
    ::setenv("TERM", "xterm-256color", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("COLUMNS");
  }
  const test::TrainDir dir_;
};

// Resizes ten times between 40 and 140 columns during training. The final screen is that of a run which began
// at the last width: the report of its own numbers.
TEST_P(LiveRun, TenResizesEndLikeARunThatBeganAtTheLastWidth) {
  constexpr u32 rows = 30;
  constexpr std::array<u32, 10> widths = {110, 55, 40, 90, 140, 47, 80, 41, 120, 64};
  Config config = long_config(dir_, 600);
  std::ofstream(dir_ / "c.yaml") << to_yaml(config);
  PseudoTerminal terminal({.columns = 100, .rows = rows}, GetParam());
  Child child({"train", dir_ / "c.yaml"}, terminal.path());
  const std::string metrics = config.output.dir + "/metrics.jsonl";
  u64 resizes = 0;
  while (!child.ended()) {
    terminal.screen();
    const u64 logged = lines_of(file_text(metrics)).size();
    if (resizes < widths.size() && logged > 5 * resizes)
      terminal.resize({.columns = widths[resizes++], .rows = rows});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(child.wait(), 0);
  ASSERT_EQ(resizes, widths.size()) << "the run was too short";

  const std::vector<std::string> lines = terminal.screen().lines();
  for (u64 step = 10; step <= 600; step += 10)
    EXPECT_EQ(count(lines, fmt::format("step {}/600  ", step)), 1u) << step;
  EXPECT_EQ(count(lines, "━"), 0u) << "a picture was left behind";
  const auto report = read_report(config.output.dir);
  ASSERT_TRUE(report) << report.error().message;
  const Screen last{.columns = widths.back(), .rows = rows, .tty = true, .color = false, .unicode = true};
  std::vector<std::string> wanted = lines_of(render_report(*report, last));
  for (std::string& line : wanted) line.erase(line.find_last_not_of(' ') + 1);
  ASSERT_GE(lines.size(), wanted.size());
  EXPECT_EQ(std::vector<std::string>(lines.end() - static_cast<i64>(wanted.size()), lines.end()), wanted);
}

// Regression: prints to a closed terminal were taken for a lost output.
TEST(ClosedTerminal, StopsTheRunAsASignalDoes) {
  const test::TrainDir dir;
  Config config = long_config(dir, 100'000);
  std::ofstream(dir / "c.yaml") << to_yaml(config);
  std::optional<PseudoTerminal> terminal(std::in_place, TerminalEmulator::Size{.columns = 80, .rows = 24},
                                         TerminalEmulator::OnResize::reflow);
  Child child({"train", dir / "c.yaml"}, terminal->path());
  while (!child.ended() && lines_of(file_text(config.output.dir + "/metrics.jsonl")).size() < 2) {
    terminal->screen();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  terminal.reset();
  child.signal(SIGHUP);
  EXPECT_EQ(child.wait(), 75);
  EXPECT_EQ(checkpoint_steps(config.output.dir).value().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(OnResize, LiveRun,
                         ::testing::Values(TerminalEmulator::OnResize::reflow,
                                           TerminalEmulator::OnResize::cut),
                         [](const auto& info) { return info.index == 0 ? "reflow" : "cut"; });

class ReportOfARun : public ::testing::Test {
 protected:
  const test::TrainDir dir_;
};

// Regression: this was an error, although a new user may wait for days.
TEST_F(ReportOfARun, ThatStillTrainsSaysSoAndShowsItsLog) {
  ChildRun run(long_config(dir_, 100'000));
  ASSERT_TRUE(run.wait_for_steps(3));
  Child report({"report", dir_ / "run"}, dir_ / "report.log");
  EXPECT_EQ(report.wait(), 0) << report.output();
  EXPECT_THAT(report.output(), AllOf(HasSubstr(fmt::format("still trains (pid {}): step ", run.pid())),
                                     HasSubstr(" of 100000"), HasSubstr("Loss")));
  EXPECT_FALSE(run.ended()) << "it must not be disturbed";
  EXPECT_THAT(file_text(dir_ / "run/report.html"), HasSubstr("\"unfinished\":\"still trains (pid "));
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.output();
  Child after({"report", dir_ / "run"}, dir_ / "report.log");
  EXPECT_EQ(after.wait(), 0) << after.output();
  EXPECT_THAT(after.output(), AllOf(Not(HasSubstr("still trains")), HasSubstr("Bytes in a step")));
}

TEST_F(ReportOfARun, ThatWasKilledSaysItsLastStep) {
  ChildRun run(long_config(dir_, 100'000));
  ASSERT_TRUE(run.wait_for_steps(3));
  run.kill_now();
  Child report({"report", dir_ / "run"}, dir_ / "report.log");
  EXPECT_EQ(report.wait(), 0) << report.output();
  EXPECT_THAT(report.output(),
              AllOf(HasSubstr("ended without a report after step "), HasSubstr("--resume auto")));
}

// Regression: the report of the process before it was shown as the current one.
TEST_F(ReportOfARun, ThatWasResumedAndKilledIsNotTheOldReport) {
  const Config config = long_config(dir_, 100'000);
  ASSERT_FALSE(test::run(config, {.stop_after = 20}));
  ASSERT_TRUE(read_report(config.output.dir));
  ChildRun run(config, "auto");
  ASSERT_TRUE(run.wait_for_steps(5)) << run.output();
  run.kill_now();
  Child report({"report", dir_ / "run"}, dir_ / "report.log");
  EXPECT_EQ(report.wait(), 0) << report.output();
  EXPECT_THAT(report.output(),
              AllOf(HasSubstr("ended without a report after step "), Not(HasSubstr("after step 20 "))));
}

TEST_F(ReportOfARun, WithoutAStepAdvisesToAskAgainLater) {
  Config config = long_config(dir_, 100'000);
  config.output.logging_steps = 50'000;
  ChildRun run(config);
  while (!run.ended() && file_text(dir_ / "run/metrics.jsonl").empty() &&
         !std::ifstream(dir_ / "run/metrics.jsonl").good())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Child report({"report", dir_ / "run"}, dir_ / "report.log");
  EXPECT_EQ(report.wait(), 2);
  EXPECT_THAT(report.output(), HasSubstr("has not logged a step yet"));
}

}  // namespace tidepool::live_run_test
