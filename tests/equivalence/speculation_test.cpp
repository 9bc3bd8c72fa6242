// Updates that do not wait for the norm end with the numbers of updates that do: whether the norm changes
// them at every step, at some, or at none, and whatever else a run does meanwhile.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/placement.h"
#include "tests/support/train_fixture.h"

namespace tidepool::speculation_test {

using test::check_bytes;
using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::TrainDir;

constexpr u64 steps = 12;

enum class Changed : u8 { every_step, some_steps, none };
struct Kind {
  Precision precision{};
  Changed changed{};
  Optim optim = Optim::adamw_torch;
};

Config config_of(const Kind& kind, const TrainDir& dir) {
  Config c = test::small_config(dir, "waits");
  c.train.precision = kind.precision;
  c.train.optim = kind.optim;
  if (optimizer(kind.optim).unit == UnitKind::tensor)  // units are padded
    c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  c.train.gradient_accumulation_steps = 2;
  c.train.max_steps = steps;
  c.train.eval_steps = 5;
  c.model.residual_dropout = 0.1;
  c.train.max_grad_norm = kind.changed == Changed::every_step ? 1e-3 : 1e6;
  if (kind.precision == Precision::fp16) test::make_fp16_that_overflows(c);
  return c;
}

// A limit in the middle of the norms that an unlimited run has.
double middle_of_norms(Config c) {
  c.train.max_grad_norm = 1e6;
  c.output.dir += "_unlimited";
  const auto report = test::run(c);
  CHECK(report.has_value(), 0);
  std::vector<double> norms = report->each_grad_norm;
  std::erase_if(norms, [](double norm) { return !std::isfinite(norm); });
  std::ranges::sort(norms);
  return norms[norms.size() / 2];
}

Config waiting_config(const Kind& kind, const TrainDir& dir) {
  Config c = config_of(kind, dir);
  if (kind.changed == Changed::some_steps) c.train.max_grad_norm = middle_of_norms(c);
  return c;
}

class Speculation : public ::testing::TestWithParam<Kind> {};

TEST_P(Speculation, ChangesNoBit) {
  const TrainDir dir;
  const Config waits = waiting_config(GetParam(), dir);
  const auto expected = test::run(waits);
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_FALSE(expected->speculated);
  u32 turn = 0;
  for (const HomePolicy home :
       {HomePolicy::automatic, HomePolicy::disk, HomePolicy::mixed, HomePolicy::host, HomePolicy::device}) {
    Config c = waits;
    c.output.dir = dir / fmt::format("speculates_{}", turn);
    c.train.speculate = SpeculatePolicy::on;
    c.memory.home = home;
    c.output.persist_steps = 1 + turn % 3;
    c.output.save_steps = turn % 2 == 0 ? 0 : 4;
    c.machine.threads = 1 + turn % 2;
    ++turn;
    SCOPED_TRACE(how_to_repeat(c));
    const auto report = test::run(c);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), numbers_of(*expected));
    ASSERT_EQ(report->each_grad_norm.size(), steps);
    for (u64 i = 0; i < steps; ++i) {
      const double norm = expected->each_grad_norm[i];
      EXPECT_TRUE(report->each_grad_norm[i] == norm || !std::isfinite(norm)) << i;
    }
    check_bytes(*report);
    EXPECT_TRUE(report->speculated);
    const u64 overflows = expected->skipped_steps;
    switch (GetParam().changed) {
      case Changed::every_step:
        EXPECT_EQ(report->redos, steps);
        break;
      case Changed::some_steps:
        EXPECT_GT(report->redos, overflows);
        EXPECT_LT(report->redos, steps);
        break;
      case Changed::none:
        EXPECT_EQ(report->redos, overflows);
    }
    EXPECT_GE(report->redone_steps, report->redos);
    EXPECT_LE(report->redone_steps, report->redos * c.output.persist_steps);
  }
}

// Kills at any moment, also while a step is trained again.
TEST_P(Speculation, ResumesAfterKills) {
  const TrainDir dir;
  const Config waits = waiting_config(GetParam(), dir);
  const Numbers expected = test::train_numbers(waits);
  Config c = waits;
  c.output.dir = dir / "killed";
  c.train.speculate = SpeculatePolicy::on;
  for (u64 turn = 0, from = 2; turn < 3; ++turn, from += 3) {
    c.memory.home = turn % 2 == 0 ? HomePolicy::disk : HomePolicy::mixed;
    c.output.persist_steps = 1 + turn % 2;
    test::ChildRun child(c, turn == 0 ? "" : "auto");
    ASSERT_TRUE(child.wait_for_steps(from)) << child.output();
    child.signal(SIGKILL);
    child.wait();
  }
  c.train.speculate = SpeculatePolicy::off;  // what one mode has committed serves the other
  const auto report = test::run(c, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->resumed_from_step, 6u);
  EXPECT_EQ(numbers_of(*report), expected);
}

// The run chooses by its own norms: after a few steps whose norm changes nothing updates stop waiting, and
// wait again once too many steps had to be trained again.
TEST(SpeculationChoice, ARunGoesBothWaysAndChangesNoBit) {
  const TrainDir dir;
  Config waits = waiting_config({Precision::bf16, Changed::some_steps}, dir);
  waits.train.max_steps = 40;
  waits.train.max_grad_norm *= 2;
  waits.train.eval_steps = 1;
  waits.train.early_stopping_patience = 30;  // so that the best step is saved
  waits.output.save_total_limit = 2;
  waits.train.speculate = SpeculatePolicy::off;
  const auto expected = test::run(waits);
  ASSERT_TRUE(expected) << expected.error().message;
  Config c = waits;
  c.output.dir = dir / "chooses";
  c.output.save_steps = 15;
  c.memory.versions = 2;
  c.train.speculate = SpeculatePolicy::automatic;
  SCOPED_TRACE(how_to_repeat(c));
  const auto report = test::run(c, {.speculation = {.steps = 3, .untried = true, .timed = 0}});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(numbers_of(*report), numbers_of(*expected));
  EXPECT_GT(report->resumed_from_step, 0u);  // the last part is reported
  EXPECT_EQ(report->best_step, expected->best_step);
  EXPECT_EQ(report->best_eval_loss, expected->best_eval_loss);
  EXPECT_EQ(report->eval_steps, expected->eval_steps);
  const auto lines = [](const Config& of) {
    return std::ranges::count(test::file_text(of.output.dir + "/metrics.jsonl"), '\n');
  };
  EXPECT_EQ(lines(c), lines(waits));
  EXPECT_EQ(test::file_text(c.output.dir + "/config.yaml").find("speculate: on"), std::string::npos);
}

// Regression: a norm that changed updates while the run came to rest for its choice made it go on at once,
// and the update on the way there was made twice.
TEST(SpeculationChoice, ANormOnTheWayToTheChoiceChangesNoBit) {
  const TrainDir dir;
  Config waits = config_of({Precision::bf16, Changed::none}, dir);
  waits.train.max_steps = 40;
  waits.train.eval_steps = 0;
  waits.train.learning_rate = 0.2;  // norms rise now and then
  waits.train.speculate = SpeculatePolicy::off;
  const auto unlimited = test::run(waits);
  ASSERT_TRUE(unlimited) << unlimited.error().message;
  const std::vector<double>& norms = unlimited->each_grad_norm;
  double most = std::max(norms[0], norms[1]);
  u32 tried = 0;
  for (u64 calm = 2; calm < norms.size() && tried < 3; ++calm) {
    if (norms[calm] <= most) continue;
    waits.output.dir = dir / fmt::format("waits_{}", calm);
    waits.train.max_grad_norm =
        (most + norms[calm]) / 2;  // the step after the calm ones is the first clipped
    most = norms[calm], ++tried;
    Config c = waits;
    c.output.dir = dir / fmt::format("chooses_{}", calm);
    c.memory.versions = 3;
    c.train.speculate = SpeculatePolicy::automatic;
    SCOPED_TRACE(how_to_repeat(c));
    const auto report = test::run(c, {.speculation = {.steps = calm, .untried = true, .timed = 0}});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), test::train_numbers(waits)) << calm;
  }
  EXPECT_GT(tried, 0u);
}

// Regression: a run that commits nothing rested after each step, once it was time to choose.
TEST(SpeculationChoice, ARunThatCannotSpeculateDoesNotRest) {
  const TrainDir dir;
  Config c = waiting_config({Precision::bf16, Changed::none}, dir);
  c.train.max_steps = 45;
  c.train.eval_steps = 0;
  c.memory.home = HomePolicy::host;
  c.memory.versions = 0;
  c.train.speculate = SpeculatePolicy::automatic;
  SCOPED_TRACE(how_to_repeat(c));
  test::ChildRun child(c);
  ASSERT_EQ(child.wait(), 0) << child.output();
  const std::string report = test::file_text(c.output.dir + "/report.json"), key = "\"phase_steps\":";
  const u64 at = report.find(key);
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::strtoull(report.c_str() + at + key.size(), nullptr, 10),
            42u);  // steps without a rest before
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& info) {
  constexpr const char* changed[] = {"every_step", "some_steps", "none"};
  const Optim optim = info.param.optim;
  return fmt::format("{}_{}{}", name(info.param.precision), changed[static_cast<u32>(info.param.changed)],
                     optim == Optim::adamw_torch ? "" : fmt::format("_{}", name(optim)));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Speculation,
    ::testing::Values(Kind{Precision::bf16, Changed::every_step}, Kind{Precision::bf16, Changed::some_steps},
                      Kind{Precision::bf16, Changed::none}, Kind{Precision::fp32, Changed::some_steps},
                      Kind{Precision::fp16, Changed::every_step}, Kind{Precision::fp16, Changed::some_steps},
                      Kind{Precision::fp16, Changed::none},
                      Kind{Precision::bf16, Changed::some_steps, Optim::lion},
                      Kind{Precision::fp16, Changed::some_steps, Optim::sgd},
                      Kind{Precision::bf16, Changed::some_steps, Optim::adamw_8bit},
                      Kind{Precision::bf16, Changed::some_steps, Optim::muon},
                      Kind{Precision::fp16, Changed::some_steps, Optim::muon},
                      Kind{Precision::fp16, Changed::some_steps, Optim::adafactor},
                      Kind{Precision::fp16, Changed::every_step, Optim::adamw_bf16}),
    kind_name);

}  // namespace tidepool::speculation_test
