// Fit of jobs: a job that fits still fits with larger budgets, and advice fits, as given and rounded up.
// TIDEPOOL_FIT_PAIRS sets the number of pairs of budgets for all models together; 20000 take some minutes.
#include "planner/fit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "config/config.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "planner/advice/change_text.h"
#include "planner/verify/verify.h"
#include "tests/support/asked_plan.h"
#include "tests/support/places.h"
#include "tests/support/random_case.h"

namespace tidepool::fit_test {

u32 pairs() {
  const char* text = std::getenv("TIDEPOOL_FIT_PAIRS");
  return text != nullptr ? static_cast<u32>(std::strtoul(text, nullptr, 10)) : test::random_cases(480);
}

// Deep and narrow, shallow and wide, a large vocabulary, and large activations.
constexpr test::GraphShape shapes[] = {
    {.layers = 9, .layer_elements = 2048 * 12, .embedding_elements = 2048 * 4},
    {.layers = 2, .layer_elements = 2048 * 60, .embedding_elements = 2048 * 10, .kept_bytes = 4096 * 40},
    {.layers = 4, .layer_elements = 2048 * 8, .embedding_elements = 2048 * 90, .untied = true},
    {.layers = 5, .layer_elements = 2048 * 16, .boundary_bytes = 4096 * 40, .packed = true},
};
constexpr u32 models = std::size(shapes) * 2 * 3;  // with and without clipping, in three precisions

struct Job {
  ModelGraph graph;
  PlanOptions options;
};

Job job_of(u32 model, u32 devices) {
  test::GraphShape shape = shapes[model % std::size(shapes)];
  const u32 rest = model / std::size(shapes);
  shape.precision = std::array{Precision::fp32, Precision::bf16, Precision::fp16}[rest / 2];
  return {.graph = test::make_graph(shape),
          .options = {
              .micro_batches = 4 * devices, .devices = devices, .clipping = rest % 2 == 0, .advise = false}};
}

u64 state_bytes(const ModelGraph& graph) {
  u64 elements = 0;
  for (const Window& w : graph.windows) elements += w.elements;
  return 16 * elements;
}

class Dice {
 public:
  explicit Dice(u32 seed) : rng_(seed) {}
  u32 pick(u32 count) { return rng_() % count; }
  // Each order of magnitude is equally likely, in steps of 512 bytes.
  Bytes size(u64 least, u64 most) {
    const double part = rng_() / 4294967296.0;
    return Bytes{
        round_up(static_cast<u64>(static_cast<double>(least) *
                                  std::pow(static_cast<double>(most) / static_cast<double>(least), part)),
                 512)};
  }

 private:
  std::mt19937 rng_;
};

// Budgets near the limit of fitting: a disk with room for all, none, or part of the state.
Budgets random_budgets(Dice& dice, u64 state) {
  const Bytes disks[] = {Bytes{u64{1} << 40}, Bytes{0}, dice.size(state / 16, 2 * state)};
  return {dice.size(128 * kib, 2 * state), dice.size(32 * kib, 2 * state), disks[dice.pick(3)]};
}

// Every second pair differs by a few bytes only: at such pairs more memory once did not fit.
Budgets larger_than(const Budgets& had, Dice& dice) {
  Budgets out = had;
  for (const Tier tier : all_tiers) {
    const u64 bytes = had.of(tier).value;
    if (dice.pick(3) == 0) continue;
    out.of(tier) +=
        dice.pick(2) == 0 ? dice.size(512, 64 * kib) : dice.size(4096, std::max<u64>(bytes, 8192));
  }
  return out;
}

bool fits(const Job& job, const Budgets& budgets) {
  PlanOptions options = job.options;
  options.budgets = budgets;
  return check_fits(job.graph, options).has_value();
}

std::string text(const Budgets& b) {
  return fmt::format("device {} host {} disk {}", b.device.value, b.host.value, b.disk.value);
}

Bytes whole_mib(Bytes bytes) { return Bytes{round_up(bytes.value, mib)}; }

// Checks also that a plan which verifies exists if the job is said to fit.
void check_advice(const Job& job, const Budgets& had) {
  PlanOptions options = job.options;
  options.budgets = had;
  options.advise = true;
  const Result<Plan> plan = make_plan(job.graph, options);
  if (plan) return;
  ASSERT_EQ(plan.error().kind, ErrorKind::does_not_fit) << plan.error().message;
  ASSERT_EQ(plan.error().changes.size(), 1u) << plan.error().message;
  const Budgets advised = raised_by(plan.error().changes.front(), had);
  EXPECT_TRUE(fits(job, advised)) << text(had) << ", advised " << text(advised);
  const Budgets rounded = {whole_mib(advised.device), whole_mib(advised.host), whole_mib(advised.disk)};
  EXPECT_TRUE(fits(job, rounded)) << text(had) << ", advised and rounded " << text(rounded);
  options.budgets = advised;
  const Result<Plan> followed = make_plan(job.graph, options);
  ASSERT_TRUE(followed) << text(had) << ", advised " << text(advised) << ": " << followed.error().message;
}

class PlannerFit : public testing::TestWithParam<u32> {};  // devices

TEST_P(PlannerFit, AJobThatFitsFitsWithLargerBudgets) {
  const u32 rounds = std::max(pairs() / models / 2, 1u);  // half of them on each number of devices
  u32 fitting = 0, refused = 0;
  for (u32 model = 0; model < models; ++model) {
    const Job job = job_of(model, GetParam());
    Dice dice(model);
    for (u32 i = 0; i < rounds; ++i) {
      const Budgets had = random_budgets(dice, state_bytes(job.graph)), larger = larger_than(had, dice);
      const bool is_fitting = fits(job, had);
      ++(is_fitting ? fitting : refused);
      if (is_fitting) {
        EXPECT_TRUE(fits(job, larger))
            << "model " << model << ": " << text(had) << " fits, and not " << text(larger);
      }
      if (i % 16 == 0) check_advice(job, had);
    }
  }
  EXPECT_GT(fitting, rounds * models / 16);
  EXPECT_GT(refused, rounds * models / 16);
}
INSTANTIATE_TEST_SUITE_P(Devices, PlannerFit, testing::Values(1, 2), testing::PrintToStringParamName());

// A search that remembers needs gives the same answer as a fresh search.
TEST(PlannerFitMemory, EarlierQueriesDoNotChangeTheAnswer) {
  for (u32 model = 0; model < models; model += 5) {
    const Job job = job_of(model, 1);
    Fit fit(job.graph, job.options);
    Dice dice(model);
    for (u32 i = 0; i < test::random_cases(40); ++i) {
      const Budgets budgets = random_budgets(dice, state_bytes(job.graph));
      EXPECT_EQ(fit.within(budgets).has_value(), fits(job, budgets)) << model << ": " << text(budgets);
    }
  }
}

// Regression: 8 MiB were enough, 9 and 12 were not, and 13 were.
TEST(PlannerFitQuickstart, MoreDeviceMemoryIsNeverTooMuch) {
  const Config config = load_config(source_file("configs/quickstart.yaml"), {"memory.host=4MiB"}).value();
  Job job{make_job(config).value().graph, plan_options(config, Bytes{gib})};
  job.options.advise = false;
  for (u64 device = 8; device <= 14; ++device)
    EXPECT_TRUE(fits(job, {Bytes{device * mib}, Bytes{4 * mib}, Bytes{gib}})) << device << " MiB";
}

// Regression: from 64 GiB on a config states whole GiB, but advice was planned in MiB, so it differed from
// the plan.
TEST(PlannerFitAdvice, IsRoundedToWholeGib) {
  const ModelGraph graph = test::make_graph({.layers = 40, .layer_elements = u64{256} * mib});
  PlanOptions options{
      .budgets = {Bytes{64 * gib}, Bytes{gib}, Bytes{0}}, .home = HomePolicy::host, .advise = true};
  const Result<void> refused = check_fits(graph, options);
  ASSERT_FALSE(refused);
  ASSERT_EQ(refused.error().changes.size(), 1u) << refused.error().message;
  options.budgets = raised_by(refused.error().changes.front(), options.budgets);
  EXPECT_TRUE(check_fits(graph, options)) << refused.error().message;
  EXPECT_EQ(options.budgets.host.value % gib, 0u);
  EXPECT_LT(options.budgets.host, Bytes{500 * gib});
}

}  // namespace tidepool::fit_test
