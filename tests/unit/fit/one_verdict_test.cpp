// `plan`, `doctor`, `--what-if` and `train` agree on whether a config fits its budgets. TIDEPOOL_VERDICTS
// sets the number of random configs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "cli/doctor.h"
#include "fit/disk_budget.h"
#include "fit/job.h"
#include "fit/plan_run.h"
#include "fit/what_if.h"
#include "tests/support/asked_plan.h"
#include "tests/support/train_fixture.h"

namespace tidepool::one_verdict_test {

using test::TrainDir;

u32 configs() {
  const char* text = std::getenv("TIDEPOOL_VERDICTS");
  return text != nullptr ? static_cast<u32>(std::strtoul(text, nullptr, 10)) : 12;
}

Config random_config(const TrainDir& dir, u32 seed) {
  std::mt19937 rng(seed);
  const auto pick = [&](auto... values) {
    const std::common_type_t<decltype(values)...> list[] = {values...};
    return list[rng() % std::size(list)];
  };
  Config c = test::small_config(dir, fmt::format("run-{}", seed));
  c.model = test::small_model(pick(Family::gpt2, Family::llama, Family::qwen3));
  c.model.layers = pick(1u, 2u, 5u);
  c.model.vocab_size = pick(256u, 256u, 3000u);
  c.data.packing = rng() % 2 == 0;
  c.train.max_steps = 0;
  c.train.precision = pick(Precision::fp32, Precision::bf16, Precision::fp16);
  c.train.max_grad_norm = pick(0.0, 1.0);
  c.train.per_device_train_batch_size = pick(1u, 2u);
  c.train.gradient_accumulation_steps = pick(1u, 4u);
  c.train.eval_batches = 0;
  c.machine.threads = 1;
  c.machine.executor = pick("cpu", "cpu", "cpu:2");
  const auto budget = [&](u64 least) { return Bytes{(least << (2 + rng() % 6)) + rng() % 64 * kib}; };
  c.memory.budgets = {budget(192 * kib), budget(96 * kib),
                      pick(Bytes{64 * mib}, Bytes{0}, Bytes{mib}, disk_auto)};
  return c;
}

bool is_does_not_fit(const Error& error) {
  return error.kind == ErrorKind::does_not_fit || error.kind == ErrorKind::io;  // for the disk
}

bool plan_fits(const Config& config) {
  const Result<RunPlan> plan = plan_run(make_job(config).value(), PlanFor::machine_of_file);
  EXPECT_TRUE(plan || is_does_not_fit(plan.error())) << plan.error().message;
  return plan.has_value();
}

bool doctor_fits(const Config& config) {
  Wanted wanted;
  const std::vector<Finding> findings = examine_plan(make_job(config), wanted);
  return std::ranges::none_of(findings, [](const Finding& f) { return f.health == Health::fail; });
}

bool train_fits(const Config& config) {
  const Result<RunReport> report = test::run(config);
  EXPECT_TRUE(report || is_does_not_fit(report.error())) << report.error().message;
  return report.has_value();
}

// The what-if change is the config's budgets and clipping; the unchanged job has enough room.
void expect_what_if_agrees(const Config& config) {
  const Job job = make_job(config).value();
  const PlanOptions asked = plan_options(config, disk_budget(config).value());
  const Result<Plan> base = draft_plan(job.graph, asked);
  if (!base) return;
  PlanOptions chosen = asked;
  chosen.chunk_bytes = Bytes{4 * base->chunk_elements};
  chosen.sweeps = base->sweeps;
  Machine machine;
  machine.device.flops_per_s.fill(1e12);
  machine.disk.capacity = Bytes{gib};
  const auto changes = what_if(
      job.graph, {.asked = asked, .options = chosen, .plan = *base, .machine = machine, .forecast = {}});
  ASSERT_TRUE(changes) << changes.error().message;
  for (const WhatIf& change : *changes) {
    Config changed = config;
    if (change.change == "clipping off")
      changed.train.max_grad_norm = 0;
    else if (change.change == "8-bit moments")
      changed.train.optim = Optim::adamw_8bit;
    else
      continue;
    EXPECT_EQ(change.step_seconds > 0, plan_fits(changed)) << change.change;
  }
}

TEST(OneVerdict, IsSharedByPlanDoctorWhatIfAndTrain) {
  const TrainDir dir;
  u32 fitting = 0;
  for (u32 seed = 0; seed < configs(); ++seed) {
    const Config config = random_config(dir, seed);
    SCOPED_TRACE(test::how_to_repeat(config));
    const bool plan = plan_fits(config);
    fitting += plan;
    EXPECT_EQ(doctor_fits(config), plan) << "doctor, " << seed;
    EXPECT_EQ(train_fits(config), plan) << "train, " << seed;
    expect_what_if_agrees(config);
  }
  EXPECT_GT(fitting, 0u);
  EXPECT_LT(fitting, configs());
}

}  // namespace tidepool::one_verdict_test
