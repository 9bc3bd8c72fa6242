// A model that is not trained is planned for forward only: its state is parameters only.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/config.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "planner/planner.h"
#include "planner/verify/verify.h"
#include "tests/support/asked_plan.h"
#include "tests/support/places.h"
#include "tests/support/random_case.h"

namespace tidepool::planner_inference_test {

ModelGraph frozen(ModelGraph graph) {
  for (Window& window : graph.windows) window.trainable = false;
  return graph;
}

Bytes homes_of(const Plan& plan) {
  Bytes sum{};
  for (const Frame& home : plan.homes) sum += home.bytes;
  return sum;
}

TEST(PlanInference, HoldsParametersAndNothingElse) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const ModelGraph graph = frozen(test::make_graph({.layers = 4, .precision = precision}));
    u64 bytes = 0;
    for (const Window& w : graph.windows) bytes += values_bytes(w.elements, precision);
    for (const u64 host : {mib / 4, 4 * mib}) {
      const auto plan = make_plan(graph, {.budgets = {Bytes{512 * kib}, Bytes{host}, Bytes{gib}}});
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_EQ(homes_of(*plan).value, bytes);
      for (const Chunk& chunk : plan->chunks)
        EXPECT_TRUE(!is_slot(chunk.kind) && chunk.kind != Kind::grad_accum && chunk.kind != Kind::kept);
      for (const Segment& segment : plan->segments)
        EXPECT_EQ(segment.ops.empty(), segment.kind != SegmentKind::evaluation) << name(segment.kind);
    }
  }
}

TEST(PlanInference, NothingIsWrittenToDisk) {
  const ModelGraph graph = frozen(test::make_graph({.layers = 12, .layer_elements = 64 * kib}));
  const auto plan = make_plan(graph, {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, Bytes{gib}}});
  ASSERT_TRUE(plan) << plan.error().message;
  const auto moved = link_bytes(*plan, SegmentKind::evaluation);
  EXPECT_GT(moved[static_cast<u32>(LinkKind::disk_read)].value, 0u);
  EXPECT_EQ(moved[static_cast<u32>(LinkKind::disk_write)].value, 0u);
}

// Compares swap space of `generate` with that of training, which keeps all state on disk.
TEST(PlanInference, TakesLittleSwap) {
  const auto swap = [](const char* config_name, bool trained) {
    Config config = load_config(source_file(fmt::format("configs/{}.yaml", config_name)), {}).value();
    config.train.gradient_accumulation_steps = config.train.per_device_train_batch_size = 1;
    const Job job = make_job(config).value();
    const Plan plan =
        make_plan(trained ? job.graph : frozen(job.graph), plan_options(config, Bytes{100 * gib})).value();
    return plan.tiers[static_cast<u32>(Tier::disk)].planned_peak;
  };
  EXPECT_GT(swap("quickstart", true), Bytes{60 * mib});
  EXPECT_LT(swap("quickstart", false), Bytes{3 * mib});
  EXPECT_GT(swap("gpt-1.3b-3gib", true), Bytes{15 * gib});
  EXPECT_LT(swap("gpt-1.3b-3gib", false), Bytes{gib / 2});
}

// Every case is planned and verified, or does not fit; if training fits, inference fits.
TEST(PlanInference, FitsWhereTrainingDoes) {
  u32 planned = 0;
  for (u32 seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const u32 devices = 1 + seed % 2;
    test::RandomCase c = test::random_case(seed, devices);
    c.options.advise = false;
    const ModelGraph graph = test::make_graph(c.shape);
    const auto training = make_plan(graph, c.options);
    const auto plan = make_plan(frozen(graph), c.options);
    planned += plan.has_value();
    if (plan) continue;
    EXPECT_EQ(plan.error().kind, ErrorKind::does_not_fit) << plan.error().message;
    EXPECT_FALSE(training) << plan.error().message;
  }
  EXPECT_GT(planned, 50u);
}

}  // namespace tidepool::planner_inference_test
