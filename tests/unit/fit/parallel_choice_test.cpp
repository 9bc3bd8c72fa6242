// machine.parallel: auto takes data or layers over devices, by predicted time.
#include <gmock/gmock.h>

#include <fstream>

#include "fit/job.h"
#include "fit/plan_run.h"
#include "fit/what_if.h"
#include "machine/machine_file.h"
#include "tests/support/train_fixture.h"

namespace tidepool::parallel_choice_test {

using test::TrainDir;
using ::testing::HasSubstr;

// Four cards of the size of an RTX 4090; `interconnect` in bytes per second, 0: none.
std::string four_cards(const TrainDir& dir, double interconnect) {
  Machine m{.name = interconnect > 0 ? "linked" : "unlinked"};
  m.device.kind = DeviceKind::cuda;
  m.device.count = 4;
  m.device.memory = Bytes{24 * gib};
  m.device.flops_per_s = {82.6e12, 165e12, 165e12};
  m.device.memory_bytes_per_s = 907e9;
  m.host.memory = Bytes{256 * gib};
  m.host.memory_bytes_per_s = 345e9, m.host.update_bytes_per_s = 317e9;
  m.copies = {.h2d_bytes_per_s = 24.7e9,
              .d2h_bytes_per_s = 24.7e9,
              .both_bytes_per_s = 43.5e9,
              .interconnect_bytes_per_s = interconnect};
  const std::string path = dir / (m.name + ".yaml");
  std::ofstream(path) << to_yaml(m);
  return path;
}

Config config_of(const TrainDir& dir, const std::string& machine) {
  Config c = test::small_config(dir);
  c.model = default_model(Family::gpt2);
  c.model.vocab_size = 8192, c.model.positions = 1024;
  c.model.width = 4096, c.model.layers = 6, c.model.attention.heads = 32;
  c.train.precision = Precision::bf16;
  c.train.sequence_length = 1024;
  c.train.per_device_train_batch_size = 2;
  c.train.gradient_accumulation_steps = 2;
  c.memory.budgets = {Bytes{4 * gib}, Bytes{64 * gib}, Bytes{0}};
  c.memory.home = HomePolicy::host;  // fewer choices are planned faster
  c.memory.chunk_size = Bytes{64 * mib};
  c.memory.sweeps = 1;
  c.train.recompute = RecomputePolicy::recompute;
  c.machine.executor = "cuda:0,1,2,3";
  c.machine.file = machine;
  c.machine.parallel = Parallel::automatic;
  return c;
}

RunPlan planned(const Config& c) {
  Result<RunPlan> plan = plan_run(make_job(c).value(), PlanFor::machine_of_file);
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(plan).value();
}

TEST(ParallelChoice, TakesTheFasterOfBoth) {
  const TrainDir dir;
  for (const double interconnect : {0.0, 300e9}) {
    Config c = config_of(dir, four_cards(dir, interconnect));
    const RunPlan chosen = planned(c);
    c.machine.parallel = Parallel::data;
    const RunPlan data = planned(c);
    c.machine.parallel = Parallel::layers;
    const RunPlan layers = planned(c);
    EXPECT_EQ(data.plan.parallel, Parallel::data);
    EXPECT_EQ(layers.plan.parallel, Parallel::layers);
    EXPECT_EQ(layers.forecast->step_seconds < data.forecast->step_seconds, interconnect == 0);
    EXPECT_EQ(chosen.plan, interconnect == 0 ? layers.plan : data.plan);
    EXPECT_EQ(chosen.candidates, data.candidates + layers.candidates);
  }
}

TEST(ParallelChoice, TakesTheOneThatFits) {
  const TrainDir dir;
  Config c = config_of(dir, four_cards(dir, 300e9));
  // Between two sweeps, each device has sums of all gradients; with layers over devices all have them once.
  c.memory.sweeps = 2;
  c.memory.home = HomePolicy::automatic;
  c.memory.budgets.host = Bytes{16 * gib};
  c.machine.parallel = Parallel::data;
  const auto data = plan_run(make_job(c).value(), PlanFor::machine_of_file);
  ASSERT_FALSE(data);
  ASSERT_EQ(data.error().kind, ErrorKind::does_not_fit) << data.error().message;
  c.machine.parallel = Parallel::automatic;
  EXPECT_EQ(planned(c).plan.parallel, Parallel::layers);
}

TEST(ParallelChoice, NeedsTheRatesOfAMachine) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  c.machine.executor = "cpu:2";
  c.machine.parallel = Parallel::automatic;
  const auto plan = plan_run(make_job(c).value(), PlanFor::this_machine);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::usage);
  EXPECT_THAT(plan.error().message, HasSubstr("machine.parallel: auto"));
  EXPECT_THAT(plan.error().message, HasSubstr("machine.file"));
  c.machine.executor = "cpu";  // one device: there is nothing to choose
  EXPECT_TRUE(plan_run(make_job(c).value(), PlanFor::this_machine));
}

TEST(ParallelChoice, WhatIfNamesTheOther) {
  const TrainDir dir;
  Config c = config_of(dir, four_cards(dir, 0));
  for (const Parallel parallel : {Parallel::data, Parallel::layers}) {
    c.machine.parallel = parallel;
    const RunPlan plan = planned(c);
    const auto changes = what_if(make_job(c).value().graph, plan);
    ASSERT_TRUE(changes) << changes.error().message;
    u32 found = 0;
    for (const WhatIf& w : *changes) {
      if (!std::string_view(w.change).ends_with("over devices")) continue;
      ++found;
      EXPECT_EQ(w.change, parallel == Parallel::data ? std::string_view("layers over devices")
                                                     : std::string_view("data over devices"));
      EXPECT_EQ(w.step_seconds < plan.forecast->step_seconds, parallel == Parallel::data);
    }
    EXPECT_EQ(found, 1u);
  }
}

}  // namespace tidepool::parallel_choice_test
