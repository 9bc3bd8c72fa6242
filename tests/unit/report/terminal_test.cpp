#include "report/terminal.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "report/outlook_text.h"
#include "tests/support/adamw_state.h"
#include "tests/support/step_line.h"

namespace tidepool::terminal_test {

using ::testing::HasSubstr;
using ::testing::Not;

const Screen plain{.columns = 80};
const Screen rich{.columns = 80, .tty = true, .color = true, .unicode = true};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_fits(const std::string& text, const Screen& screen) {
  for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), screen.columns) << line;
  if (screen.unicode) return;
  for (const char c : text) ASSERT_LT(static_cast<unsigned char>(c), 0x80) << "not ASCII:\n" << text;
}

PlanSummary big_plan() {
  PlanSummary p{.model = "gpt-1.3b", .executor = "cpu:1, 16 threads", .precision = Precision::bf16};
  p.parameters = 1313722368;
  p.layers = 24, p.width = 2048, p.heads = 16, p.vocabulary = 50257;
  p.sequences = 4, p.tokens_per_sequence = 1024, p.micro_batches = 16, p.sweeps = 2;
  p.state = Bytes{12 * p.parameters};
  const StateSlots slots = p.state_slots = test::adamw_state(p.precision);
  const Kind momentum = test::momentum(slots), variance = test::variance(slots);
  p.kept = {{Kind::param, 2}, {slots.master(), 2}, {momentum, 4}, {variance, 4}};
  p.waiting = {{Kind::grad, 2}};
  const std::vector<KindUse> all = {{Kind::param, Bytes{300 * mib}},     {slots.master(), Bytes{999 * mib}},
                                    {momentum, Bytes{5012 * mib}},       {variance, Bytes{5012 * mib}},
                                    {Kind::grad, Bytes{100 * mib}},      {Kind::grad_accum, Bytes{100 * mib}},
                                    {Kind::activation, Bytes{77 * mib}}, {Kind::workspace, Bytes{1}}};
  for (TierSummary& t : p.tiers) t = {Bytes{20 * gib}, Bytes{11 * gib}, all, all};
  for (LinkSummary& l : p.links) l = {Bytes{14100 * mib}, Bytes{13900 * mib}, 9.1};
  p.compute_seconds = 8.2, p.predicted_step_seconds = 12.3, p.binds = "disk_write";
  p.notes = {"checkpoints: 3 x 17.1 GiB"};
  return p;
}

RunReport long_run() {
  RunReport r{
      .model = "gpt2 24 x 2048", .precision = "bf16", .weights_xxh3 = "00112233aabbccdd", .steps = 10};
  r.tokens_per_second = 22.3, r.train_seconds = 1234, r.flops_per_second = 41, r.peak_flops_per_second = 100;
  for (int i = 0; i < 500; ++i) r.losses.push_back(2 + 3 * std::exp(-i / 80.0));
  r.losses[7] = std::nan("");
  r.eval_steps = {250, 500};
  r.eval_losses = {2.5, 2.1};
  r.exposed = {{"compute", 800}, {"disk_read", 100}, {"h2d", 0}};
  r.phases = {{"forward", 3, 2.9}, {"backward", 6, 5.9}, {"update", 6, 5.5}};
  for (LinkUse& l : r.links) l = {Bytes{100 * gib}, Bytes{100 * gib}, Bytes{99 * gib}};
  for (TierPeak& t : r.tiers) t = {Bytes{gib}, Bytes{900 * mib}, Bytes{900 * mib}};
  r.rss_peak = Bytes{3 * gib};
  r.comm = CommUse{Bytes{9 * gib}, Bytes{9 * gib - 1}};
  return r;
}

TEST(ReportTerminal, EverythingFits80Columns) {
  for (const Screen& screen : {plain, rich, Screen{.columns = 80, .unicode = true}, Screen{.columns = 60},
                               Screen{.columns = 60, .tty = true, .color = true, .unicode = true}}) {
    PlanSummary plan = big_plan();
    plan.notes.push_back(
        "checkpoints: 2.29 MiB each, up to 3 at once in a/directory/with/a/name that is long, and longer");
    expect_fits(render_plan(plan, screen), screen);
    expect_fits(render_report(long_run(), screen), screen);
  }
}

// Nothing fits on that screen, but drawing ends.
TEST(ReportTerminal, DrawsOnTheNarrowestScreen) {
  for (const Screen& screen : {Screen{.columns = 40}, Screen{.columns = 40, .tty = true, .unicode = true}})
    EXPECT_LT(render_plan(big_plan(), screen).size() + render_report(long_run(), screen).size(), 20'000u);
  EXPECT_EQ(bar(plain, 0.5, 0, Ink::plain), "");
}

TEST(ReportTerminal, DrawsReservedBytesOfATierAsReserved) {
  PlanSummary plan = big_plan();
  const std::vector<KindUse> few = {{Kind::activation, Bytes{gib}}};
  plan.tiers[0] = {.budget = Bytes{20 * gib},
                   .planned_peak = Bytes{16 * gib},
                   .resting = {},
                   .streaming = few,
                   .reserved = Bytes{15 * gib}};
  const std::string text = render_plan(plan, plain);
  EXPECT_THAT(text, HasSubstr("holds  W workspace 15.0 GiB"));
  EXPECT_THAT(text, HasSubstr("WWWWWWWWWWWWWWWW"));  // 15 of 20 GiB, and one of 20 for passing content
  EXPECT_THAT(text, Not(HasSubstr("AAAAA")));
}

TEST(ReportTerminal, ShowsNoBoundAboveTheMeasuredTime) {
  RunReport run = long_run();
  EXPECT_THAT(render_report(run, plain), HasSubstr("forward 3.00 s (least 2.90 s) + backward"));
  for (const double bound : {0.0, 2 * run.phases[0].seconds}) {
    run.phases[0].bound_seconds = bound;
    EXPECT_THAT(render_report(run, plain), HasSubstr("forward 3.00 s + backward"));
  }
}

TEST(ReportTerminal, TwoRunsFitWhateverTheirNamesAndSettings) {
  const std::string path = "/a/" + std::string(60, 'b') + "/" + std::string(90, 'c') + "/run";
  RunReport first = long_run(), second = long_run();
  first.config = {
      {"data.train", "one.txt, " + path}, {"train.seed", "1"}, {"memory.device", std::string(75, '9')}};
  second.config = {{"data.train", path + ", \xc3\xa9"}, {"train.seed", "2"}, {"memory.device", "1"}};
  for (const Screen& screen : {plain, rich, Screen{.columns = 60}, Screen{.columns = 120}}) {
    const std::string text = render_comparison({path + "1", first}, {path + "2", second}, screen);
    for (const std::string& line : lines_of(text))
      EXPECT_LE(display_width(line), std::min(screen.columns, 80u)) << line;
    std::string words = text;
    std::erase_if(words, [](char c) { return c == ' ' || c == '\n'; });
    EXPECT_THAT(words, HasSubstr("A" + path + "1B" + path + "2"));  // not shortened
    EXPECT_THAT(text, HasSubstr(screen.unicode ? "1 \u2192 2" : "1 -> 2"));
  }
}

// Rates and bytes are named as means of all steps, medians as medians.
TEST(ReportTerminal, EachFigureOfAStepNamesItsStatistic) {
  RunReport r = long_run();
  r.step_seconds = 120, r.predicted_step_seconds = 110, r.phase_steps = 9;
  const std::string text = render_report(r, plain);
  EXPECT_THAT(text,
              HasSubstr("median of 10 steps 2m 00s, mean with the last update 2m 03s, predicted 1m 50s"));
  EXPECT_THAT(text,
              HasSubstr("median of 9 steady steps 15.0 s\n    forward 3.00 s (least 2.90 s) + backward"));
  EXPECT_THAT(text, HasSubstr("Bytes in a step  mean of 10 steps, first and last too"));
  const std::string both = render_comparison({"a", r}, {"b", r}, plain);
  for (const char* label : {"tokens/s, mean", "step, mean", "step, median", "Bytes, mean step"})
    EXPECT_THAT(both, HasSubstr(label));
}

// Regression: the checkpoint was shown with the loss of an earlier step.
TEST(ReportTerminal, TheBestLossIsPrintedWithItsOwnStep) {
  RunReport r = long_run();
  r.best_checkpoint = "runs/ev/checkpoint-10", r.best_step = 10, r.best_eval_loss = 7.5205;
  r.best_eval_step = 10;
  EXPECT_THAT(render_report(r, plain), HasSubstr("Best: runs/ev/checkpoint-10, eval_loss 7.5205"));
  r.best_eval_step = 5;
  EXPECT_THAT(render_report(r, plain),
              HasSubstr("Best: eval_loss 7.5205 at step 5; the first checkpoint after it is"));
  r.best_eval_step = 0;  // an older report.json
  EXPECT_THAT(render_report(r, plain),
              HasSubstr("Best: eval_loss 7.5205; runs/ev/checkpoint-10 is the first checkpoint"));
}

// The same bytes as on the plan's page, which shows a steady step.
TEST(ReportTerminal, PrintsASteadyStepsPlannedBytesBesideTheMean) {
  RunReport r = long_run();
  EXPECT_THAT(render_report(r, plain), Not(HasSubstr("steady step is planned")));  // an older report.json
  for (LinkUse& l : r.links) l.planned_steady = Bytes{7 * gib};
  EXPECT_THAT(render_report(r, plain),
              HasSubstr("a steady step is planned with: h2d 7.00 GiB, d2h 7.00 GiB"));
  expect_fits(render_report(r, Screen{.columns = 60}), Screen{.columns = 60});
}

TEST(ReportTerminal, PrintsADrivesEnduranceOrThatItIsAssumed) {
  RunReport r = long_run();
  EXPECT_THAT(render_report(r, plain), HasSubstr("600 TB of endurance (assumed) last"));
  EXPECT_THAT(render_report(r, plain), HasSubstr("collectives"));
  r.disk_endurance = Bytes{1'200'000'000'000'000};
  r.comm.reset();
  EXPECT_THAT(render_report(r, plain), HasSubstr("1200 TB of endurance (machine.file) last"));
  EXPECT_THAT(render_report(r, plain), Not(HasSubstr("collectives")));
}

// The device table is per device; the state is compared with the budgets of all devices.
TEST(ReportTerminal, APlanForSeveralDevicesSaysWhichFiguresArePerDevice) {
  PlanSummary p = big_plan();
  p.devices = 8;
  p.state = Bytes{90 * gib};  // budgets: 8 x 20 + 20 GiB
  const std::string text = render_plan(p, plain);
  EXPECT_THAT(text, HasSubstr("90.0 GiB, 0.500 x 8 devices' + host budget"));
  EXPECT_THAT(text, HasSubstr("device: each of 8"));
  EXPECT_THAT(text, HasSubstr("all 8 devices together"));
  p.devices = 1;
  EXPECT_THAT(render_plan(p, plain), HasSubstr("2.25 x device + host budget"));
  expect_fits(text, plain);
}

// Passing content shares the same space: the arena has the planned size, whatever the sum of its kinds.
TEST(ReportTerminal, APlansFreeMemoryIsTheBudgetMinusTheArena) {
  const std::string text = render_plan(big_plan(), plain);  // 11 of 20 GiB planned; kinds sum to 22.7
  EXPECT_THAT(text, HasSubstr("9.00 GiB free"));
  EXPECT_THAT(text, Not(HasSubstr(" 0 B free")));
}

TEST(ReportTerminal, WrapsThePredictionForAMachine) {
  for (const u32 columns : {60u, 80u, 120u}) {
    const Screen screen{.columns = columns};
    const std::string text =
        render_outlook("a machine",
                       {{"Disk", std::string(20, 'a') + " " + std::string(20, 'b') + " " +
                                     std::string(20, 'c') + " " + std::string(20, 'd')}},
                       screen);
    expect_fits(text, Screen{.columns = std::min(columns, 80u)});
    EXPECT_THAT(text, HasSubstr("\n               " + std::string(20, columns < 80 ? 'c' : 'd')));
  }
}

// Work past the step's end is drawn at the begin, because the next step is alike.
TEST(ReportTerminal, AGanttEndsWhereTheStepEnds) {
  const std::string text = render_gantt(
      {{"compute", {{0.5, 1.0}}}, {"h2d", {{0.9, 1.1}}}, {"d2h", {{-0.1, 0.1}}}}, 1.0, {.columns = 42});
  const auto lines = lines_of(text);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[2], "  compute     ..........##########   50%");
  EXPECT_EQ(lines[3], "  h2d         ##................##   20%");
  EXPECT_EQ(lines[4], "  d2h         ##................##   20%");
  EXPECT_TRUE(lines[5].ends_with("1.00 s")) << lines[5];
}

LiveState busy_live() {
  LiveState live{.known = true};
  live.busy.fill(0.99);
  live.busy[static_cast<u32>(LaneKind::comm)] = std::nan("");  // a single device has no such lane
  live.fill.fill(1.7);                                         // shown as full
  return live;
}

TEST(ReportTerminal, LiveViewFitsAndOmitsMissingValues) {
  for (u32 columns : {40u, 50u, 80u, 100u, 120u}) {
    for (Screen screen : {plain, rich}) {
      screen.columns = columns;
      const auto lines = live_lines(busy_live(), screen);
      EXPECT_EQ(lines.size(), columns < 50 ? 0u : 2u);
      for (const std::string& line : lines) {
        EXPECT_LT(display_width(line), columns) << line;
        EXPECT_THAT(line, Not(HasSubstr("comm ")));
        EXPECT_THAT(line, Not(HasSubstr("170%")));
        if (!screen.color) {
          EXPECT_THAT(line, Not(HasSubstr("\x1b")));
        }
      }
    }
  }
  EXPECT_EQ(live_lines({}, rich).size(), 0u);
}

TEST(ReportTerminal, LiveViewIsDrawnOnATerminalOnly) {
  for (const bool tty : {false, true}) {
    std::FILE* out = std::tmpfile();
    {
      Progress progress({.columns = 80, .tty = tty}, out, {.total_steps = 9});
      progress.live(busy_live(), 1);
      progress.live(busy_live(), 1.01);  // too soon
      progress.note("saved");
    }
    std::string text(static_cast<std::size_t>(std::ftell(out)), ' ');
    std::rewind(out);
    ASSERT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
    std::fclose(out);
    if (!tty) {
      EXPECT_EQ(text, "saved\n");
      continue;
    }
    EXPECT_THAT(text, HasSubstr("compute"));
    EXPECT_THAT(text, HasSubstr("\r\x1b[2A"));
    EXPECT_THAT(text, HasSubstr("\r\x1b[Jsaved\n"));
    EXPECT_TRUE(text.ends_with("\r\x1b[J"));
  }
}

TEST(ReportTerminal, DrawsEmptyValues) {
  for (const Screen& screen : {plain, rich}) {
    expect_fits(render_plan({}, screen), screen);
    expect_fits(render_report({}, screen), screen);
  }
}

TEST(ReportTerminal, PlanSaysWhereStateLiesWhatMovesAndWhatBinds) {
  const std::string text = render_plan(big_plan(), plain);
  EXPECT_THAT(text, HasSubstr("1.31B parameters, 24 layers x 2048 wide, 16 heads, vocab 50257"));
  EXPECT_THAT(text, HasSubstr("65536 tokens = 16 micro-batches x 4 x 1024, 2 sweeps, clipped"));
  EXPECT_THAT(text, HasSubstr("12 bytes = param 2 + master_low 2 + momentum 4 + variance 4"));
  EXPECT_THAT(text, HasSubstr("+ grad 2 while gradients wait for the norm"));
  PlanSummary unclipped = big_plan();
  unclipped.clipping = false;
  EXPECT_THAT(render_plan(unclipped, plain), HasSubstr("+ grad 2 while a gradient waits for its update"));
  EXPECT_THAT(text, HasSubstr("G gradients 200 MiB"));  // grad and grad_accum
  EXPECT_THAT(text, HasSubstr("disk_write      13.8 GiB      13.6 GiB     1.01      9.10 s  < binds"));
}

TEST(ReportTerminal, ATierBarKeepsItsWidth) {
  PlanSummary p = big_plan();
  for (const u64 budget : {u64{0}, u64{1}, 3 * mib, 100 * gib}) {
    p.tiers[0].budget = Bytes{budget};
    expect_fits(render_plan(p, plain), plain);
  }
}

TEST(ReportTerminal, ReportMarksBytesThatDifferFromThePlan) {
  RunReport r = long_run();
  EXPECT_THAT(render_report(r, plain), HasSubstr("1.01  ="));
  r.links[0].measured += Bytes{4096};
  r.links[1].measured -= Bytes{1};
  EXPECT_THAT(render_report(r, plain), HasSubstr("+4096 B"));
  EXPECT_THAT(render_report(r, plain), HasSubstr("-1 B"));
}

TEST(ReportTerminal, PlotSurvivesAnyValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  for (const Screen& screen : {plain, rich}) {
    const auto plot = [&](const std::vector<double>& values) {
      return render_plot(values, {{1, 1.0}, {9, nan}}, {}, screen);
    };
    EXPECT_EQ(plot({5, 4, 3}).size(), 10u);
    EXPECT_EQ(plot({nan, inf, 3, -inf}).size(), 10u);
    EXPECT_EQ(plot({2}).size(), 10u);
    EXPECT_EQ(plot({2, 2, 2}).size(), 10u);
    EXPECT_EQ(plot({1e300, -1e300, 0}).size(), 10u);
    EXPECT_EQ(plot(std::vector<double>(100'000, 1.5)).size(), 10u);
    EXPECT_TRUE(render_plot({nan}, {}, {}, screen).empty());
    EXPECT_TRUE(render_plot({}, {}, {}, screen).empty());
  }
}

TEST(ReportTerminal, PlotFallsFromLeftToRight) {
  const auto lines = render_plot({4, 3, 2, 1}, {}, {.columns = 13, .rows = 4}, plain);
  EXPECT_EQ(lines, (std::vector<std::string>{"   4.00 |*", "        | *", "   2.00 |  *", "   1.00 |   *",
                                             "        +----", "         1  4"}));
}

ProgressState some_progress() {
  StepLine last = test::step_line(
      371, {.loss = 3.21456, .learning_rate = 3e-4, .grad_norm = 0.8123, .tokens_per_second = 1240});
  last.fraction_of_peak = 0.41, last.binds = "disk_write";
  return {.last = last, .total_steps = 1000, .eta_seconds = 7384};
}

TEST(ReportTerminal, ProgressBarIsCompleteAt80ColumnsAndShorterWhenNarrow) {
  EXPECT_EQ(progress_bar(some_progress(), plain),
            " ===>------ 371/1000  loss 3.215  1.24k tok/s  eta 2h 03m  41% peak  disk_write");
  EXPECT_THAT(progress_bar(some_progress(), rich), HasSubstr("disk_write"));
  for (u32 columns = 40; columns <= 120; ++columns) {
    Screen screen = rich;
    screen.columns = columns;
    const std::string bar = progress_bar(some_progress(), screen);
    EXPECT_LT(display_width(bar), columns);
    EXPECT_THAT(bar, HasSubstr("loss 3.215"));
  }
}

// Written reads back the output of a Progress.
class Written {
 public:
  Written() : file_(std::tmpfile()) {}
  ~Written() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    std::rewind(file_);
    std::string out;
    for (int c; (c = std::fgetc(file_)) != EOF;) out += static_cast<char>(c);
    return out;
  }

 private:
  std::FILE* file_;
};

TEST(ReportTerminal, PipedProgressIsOnePlainLinePerLoggedStep) {
  Written written;
  {
    Progress progress(plain, written.file(), {.total_steps = 5, .logging_steps = 2});
    for (u64 step = 1; step <= 5; ++step) {
      progress.step(test::step_line(step, {.epoch = double(step),
                                           .loss = 1.5,
                                           .learning_rate = 1e-3,
                                           .grad_norm = 1,
                                           .tokens_per_second = 100}),
                    double(step));
    }
    progress.note("saved");
  }
  EXPECT_EQ(written.text(),
            "step 2/5  loss 1.5000  lr 0.001  grad_norm 1.00  epoch 2.00  100 tok/s  eta 3.00 s\n"
            "step 4/5  loss 1.5000  lr 0.001  grad_norm 1.00  epoch 4.00  100 tok/s  eta 1.00 s\n"
            "step 5/5  loss 1.5000  lr 0.001  grad_norm 1.00  epoch 5.00  100 tok/s  eta 0 s\nsaved\n");
}

TEST(ReportTerminal, StepsOfAMillisecondHaveALineEachAndFewRedraws) {
  Written written;
  {
    Progress progress(rich, written.file(), {.total_steps = 1000, .logging_steps = 10});
    for (u64 step = 1; step <= 100; ++step) {
      progress.step(test::step_line(step, {.loss = 1.5, .tokens_per_second = 100}), 1e-3 * double(step));
    }
    progress.note("checkpoint-100 saved");
  }
  const std::string text = written.text();
  for (u64 step = 10; step <= 100; step += 10)
    EXPECT_THAT(text, HasSubstr("step " + std::to_string(step) + "/1000"));
  u64 pictures = 0;
  for (std::size_t at = 0; (at = text.find("\x1b[?7l", at)) != std::string::npos; ++at) ++pictures;
  EXPECT_LE(pictures, 5u);
  EXPECT_TRUE(text.ends_with(erase_lines));
}

TEST(ReportTerminal, WrappedLinesContinueUnderTheirText) {
  EXPECT_EQ(wrap_lines("", 20), "");
  EXPECT_EQ(wrap_lines("short\n\n  two lines\n", 20), "short\n\n  two lines\n");
  EXPECT_EQ(wrap_lines("  why: it is needed by all of them", 20),
            "  why: it is needed\n      by all of them\n");
  EXPECT_EQ(wrap_lines("  home     in the host, bytes", 22), "  home     in the\n           host, bytes\n");
  EXPECT_EQ(wrap_lines("a_word_that_is_longer_than_the_line b", 20),
            "a_word_that_is_longer_than_the_line\n    b\n");
}

}  // namespace tidepool::terminal_test
