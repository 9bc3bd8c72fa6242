// The live view on a terminal that is resized during drawing.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "report/status_line.h"
#include "report/terminal.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/step_line.h"

namespace tidepool::live_view_test {

using test::PseudoTerminal;
using test::TerminalEmulator;
using ::testing::HasSubstr;
using ::testing::Not;
using OnResize = TerminalEmulator::OnResize;

class FileOf {
 public:
  explicit FileOf(const std::string& path) : file_(std::fopen(path.c_str(), "w")) {}
  ~FileOf() { std::fclose(file_); }
  std::FILE* get() { return file_; }

 private:
  std::FILE* file_;
};

constexpr u64 steps_all = 400, steps_seen = 120;

// SeenRun shows steps on a terminal, always with the same numbers.
class SeenRun {
 public:
  SeenRun(TerminalEmulator::Size size, OnResize on_resize)
      : terminal_(size, on_resize),
        file_(terminal_.path()),
        screen_(detect_screen(fileno(file_.get()))),
        progress_(std::in_place, screen_, file_.get(),
                  Progress::Options{.total_steps = steps_all, .total_epochs = 2.5}) {}

  void step(u64 number) {
    const double share = static_cast<double>(number) / steps_all;
    LiveState live{.known = true};
    live.busy.fill(1 - share);
    live.fill.fill(share);
    progress_->step(test::step_line(number, {.epoch = 2.5 * share,
                                             .loss = 7 - 3 * share,
                                             .learning_rate = 3e-4 * (1 - share),
                                             .grad_norm = 1 + share,
                                             .tokens_per_second = 12'345}),
                    static_cast<double>(number));
    progress_->live(live, static_cast<double>(number) + 0.5);
    if (number % 50 == 0) progress_->note("saved runs/a/checkpoint-" + std::to_string(number));
    terminal_.screen();
  }
  void resize(TerminalEmulator::Size size) { terminal_.resize(size); }
  void close() { progress_.reset(); }
  const TerminalEmulator& screen() { return terminal_.screen(); }

 private:
  PseudoTerminal terminal_;
  FileOf file_;
  Screen screen_;
  std::optional<Progress> progress_;
};

class LiveViewTest : public ::testing::TestWithParam<OnResize> {
 protected:
  LiveViewTest() {
    ::setenv("TERM", "xterm-256color", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("COLUMNS");
  }
  static u64 count(const std::vector<std::string>& lines, const std::string& part) {
    return static_cast<u64>(std::ranges::count_if(
        lines, [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }
};

constexpr std::array<u32, 10> widths = {110, 55, 40, 90, 140, 47, 80, 41, 120, 64};

// Regression: the view kept its first width, and left rows of old pictures on the screen.
TEST_P(LiveViewTest, TenResizesEndLikeARunThatBeganAtTheLastWidth) {
  for (const u32 rows : {24u, 7u}) {
    for (u32 rotated = 0; rotated < widths.size(); ++rotated) {
      const u32 last = widths[(rotated + widths.size() - 1) % widths.size()];
      SeenRun resized({.columns = 100, .rows = rows}, GetParam()), fresh({last, rows}, GetParam());
      u64 resizes = 0, after_last = 0;
      for (u64 step = 1; step <= steps_seen; ++step) {
        if (step % 11 == 0 && resizes < widths.size()) {
          resized.resize({widths[(resizes + rotated) % widths.size()], rows});
          after_last = step;
          ++resizes;
        }
        resized.step(step);
        fresh.step(step);
      }
      ASSERT_EQ(resizes, widths.size());
      // Compares the view, and the lines of all steps since the last resize.
      const std::vector<std::string> seen = resized.screen().rows(), wanted = fresh.screen().rows();
      const std::size_t view = last < 50 ? 2 : 4;
      const std::size_t compared = steps_seen - after_last + 1 + view;
      ASSERT_GE(seen.size(), compared);
      EXPECT_TRUE(std::equal(wanted.end() - static_cast<i64>(compared), wanted.end(),
                             seen.end() - static_cast<i64>(compared)))
          << "at " << last << " columns:\n"
          << ::testing::PrintToString(seen);
      EXPECT_EQ(count(seen, "━"), 1u) << "a bar of an earlier picture was left";
    }
  }
}

TEST_P(LiveViewTest, EveryLoggedStepLeavesOneLineAboveTheView) {
  SeenRun run({.columns = 80, .rows = 24}, GetParam());
  for (u64 step = 1; step <= steps_seen; ++step) {
    if (step % 13 == 0) run.resize({.columns = widths[step / 13 % widths.size()], .rows = 24});
    run.step(step);
  }
  run.close();
  const std::vector<std::string> lines = run.screen().lines();
  for (u64 step = 1; step <= steps_seen; ++step)
    EXPECT_EQ(count(lines, "step " + std::to_string(step) + "/400"), 1u) << step;
  EXPECT_EQ(count(lines, "saved runs/a/checkpoint-"), steps_seen / 50);
  EXPECT_EQ(lines.size(), steps_seen + steps_seen / 50) << ::testing::PrintToString(lines);
}

TEST_P(LiveViewTest, ShowsLearningRateGradientNormAndEpochAtAnyWidth) {
  for (u32 columns = 40; columns <= 140; ++columns) {
    SeenRun run({.columns = columns, .rows = 24}, GetParam());
    run.step(1);
    const std::vector<std::string> rows = run.screen().rows();
    const std::string numbers = rows.at(2);  // below the step's line and the bar
    EXPECT_THAT(numbers, HasSubstr("lr 0.000299"));
    EXPECT_THAT(numbers, HasSubstr("norm 1.00"));
    EXPECT_THAT(numbers, HasSubstr(columns >= 50 ? "epoch 0.00625/2.50" : "epoch 0.00625"));
    for (const std::string& row : rows) EXPECT_LT(display_width(row), columns) << row;
  }
}

// On a terminal of a few rows the picture's first row must stay visible, or it cannot be erased.
TEST_P(LiveViewTest, AWindowOfThreeRowsIsNotFilledWithOldBars) {
  SeenRun run({.columns = 80, .rows = 3}, GetParam());
  for (u64 step = 1; step <= 30; ++step) run.step(step);
  EXPECT_EQ(count(run.screen().lines(), "━"), 1u);
}

INSTANTIATE_TEST_SUITE_P(OnResize, LiveViewTest, ::testing::Values(OnResize::reflow, OnResize::cut),
                         [](const auto& info) { return info.param == OnResize::reflow ? "reflow" : "cut"; });

// A line that another width wrapped must not shift later output.
TEST(TerminalEmulatorTest, WrapsReflowsAndMovesTheCursorWithTheText) {
  TerminalEmulator terminal({.columns = 10, .rows = 3}, OnResize::reflow);
  terminal.write("0123456789ab\r\nbar\r");
  EXPECT_EQ(terminal.rows(), (std::vector<std::string>{"0123456789", "ab", "bar"}));
  terminal.resize({.columns = 6, .rows = 3});
  EXPECT_EQ(terminal.rows(), (std::vector<std::string>{"012345", "6789ab", "bar"}));
  terminal.write("\x1b[Jnew");
  EXPECT_EQ(terminal.lines(), (std::vector<std::string>{"0123456789ab", "new"}));
  terminal.write("\x1b[?7l, and longer\x1b[?7h");
  EXPECT_EQ(terminal.rows().back(), "new, r");
}

}  // namespace tidepool::live_view_test
