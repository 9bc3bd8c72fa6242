// Lower bounds of a step's phases: against replays, and by hand if only one resource works.
#include "fit/phase_bound.h"

#include <gtest/gtest.h>

#include <numeric>

#include "fit/forecast.h"
#include "planner/bound/lower_bound.h"
#include "planner/planner.h"
#include "tests/support/random_case.h"

namespace tidepool::phase_bound_test {

ModelGraph graph_of(u32 layers, Precision precision) {
  return test::make_graph({.layers = layers,
                           .layer_elements = 16'384,
                           .boundary_bytes = 16'384,
                           .kept_bytes = 65'536,
                           .precision = precision});
}

Plan plan_of(const ModelGraph& graph, const PlanOptions& options) {
  return make_plan(graph, options).value();
}

// For every block: a micro-batch's forward, backward, and backward with recompute.
OpSeconds blocks_of(const ModelGraph& graph, double forward) {
  return {.blocks = std::vector<BlockSeconds>(graph.blocks.size(), {forward, 2 * forward, 3 * forward})};
}

double sum_of(const std::vector<PhaseBound>& bounds) {
  return std::accumulate(bounds.begin(), bounds.end(), 0.0,
                         [](double sum, const PhaseBound& b) { return sum + b.seconds; });
}

Machine machine_of(double flops, double disk) {
  Machine m;
  m.device.kind = DeviceKind::cuda;
  m.device.op_overhead = Nanos{0};
  m.device.flops_per_s.fill(flops);
  m.disk.read_bytes_per_s = m.disk.write_bytes_per_s = m.disk.mixed_bytes_per_s = disk;
  return m;
}

// With versions a step may be committed, and need not be.
TEST(PhaseBounds, NoReplayIsFaster) {
  for (u32 seed = 0; seed < 24; ++seed) {
    const ModelGraph graph = graph_of(3 + seed % 4, seed % 2 ? Precision::bf16 : Precision::fp32);
    const Plan plan = plan_of(graph, {.budgets = {Bytes{(700 + 200 * (seed % 5)) * kib},
                                                  Bytes{(700 + 300 * (seed % 4)) * kib}, Bytes{gib}},
                                      .micro_batches = 4,
                                      .clipping = seed % 3 != 1,
                                      .versions = 1 + seed % 3});
    Machine machine = machine_of(seed % 3 == 0 ? 1e9 : 1e12, seed % 4 < 2 ? 2e8 : 5e9);
    if (seed % 2) machine.device.kind = DeviceKind::cpu;
    const auto blocks = blocks_of(graph, seed % 3 == 0 ? 2e-3 : 2e-5);
    const double replayed = forecast(plan, graph, machine, {.seconds = blocks}).value().step_seconds;
    const double least = sum_of(phase_bounds({plan, graph, machine, blocks, true}));
    EXPECT_LE(least, replayed * 1.02) << seed;  // the last of four replayed steps may be slightly shorter
    EXPECT_GT(least, replayed * 0.2) << seed;
    EXPECT_LE(sum_of(phase_bounds({plan, graph, machine, blocks, false})), least * 1.001) << seed;
  }
}

TEST(PhaseBounds, WithoutMovementsEqualTheTimeToCompute) {
  const ModelGraph graph = graph_of(4, Precision::fp32);
  const Plan plan = plan_of(graph, {.budgets = {Bytes{gib}, Bytes{gib}, Bytes{gib}}, .micro_batches = 2});
  Machine machine = machine_of(1e9, 1e9);
  machine.device.memory_bytes_per_s = machine.host.memory_bytes_per_s = 1e18;
  const auto bounds = phase_bounds({plan, graph, machine, blocks_of(graph, 1.0), true});
  // The head has no forward of its own; embedding and head have nothing inside to keep.
  const double layers = static_cast<double>(graph.blocks.size() - 2);
  const double forward = 2 * (layers + 1), backward = 2 * (2 * layers + 2 * 3);
  ASSERT_EQ(bounds.size(), 2u);
  EXPECT_EQ(bounds[0].phase, "forward");
  EXPECT_NEAR(bounds[0].seconds, forward, 1e-6 * forward);
  EXPECT_EQ(bounds[1].phase, "backward");
  EXPECT_NEAR(bounds[1].seconds, backward, 1e-6 * backward);
  EXPECT_EQ(bounds[0].binds, "compute");
}

// The disk's bytes over its rate; with clipping more, unless memory holds the state of the forward's updates.
TEST(PhaseBounds, TheDiskBindsBothPhasesOfASlowOne) {
  const ModelGraph graph = graph_of(6, Precision::bf16);
  PlanOptions options = {.budgets = {Bytes{700 * kib}, Bytes{700 * kib}, Bytes{gib}},
                         .micro_batches = 2,
                         .home = HomePolicy::disk};
  const Plan plan = plan_of(graph, options);
  const auto bounds = phase_bounds({plan, graph, machine_of(1e15, 1e6), {}, true});
  const auto moved = lower_bound(plan, graph);
  const double all = static_cast<double>((moved[static_cast<u32>(LinkKind::disk_read)] +
                                          moved[static_cast<u32>(LinkKind::disk_write)])
                                             .value) /
                     1e6;
  EXPECT_LE(sum_of(bounds), all * 1.001);
  EXPECT_GT(sum_of(bounds), all * 0.9);
  for (const PhaseBound& bound : bounds) EXPECT_EQ(bound.binds, "disk");
}

TEST(PhaseBounds, WithoutClippingThereIsOnePhase) {
  const ModelGraph graph = graph_of(4, Precision::fp32);
  const Plan plan = plan_of(
      graph, {.budgets = {Bytes{gib}, Bytes{gib}, Bytes{gib}}, .micro_batches = 2, .clipping = false});
  const auto bounds = phase_bounds({plan, graph, machine_of(1e9, 1e9), {}, true});
  ASSERT_EQ(bounds.size(), 1u);
  EXPECT_EQ(bounds[0].phase, "step");
}

}  // namespace tidepool::phase_bound_test
