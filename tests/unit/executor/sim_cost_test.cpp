// Costs of collectives on a machine, calculated by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "executor/sim/cost.h"
#include "fit/forecast.h"
#include "planner/planner.h"
#include "tests/support/support_graph.h"

namespace tidepool::sim_cost_test {

constexpr u32 devices = 4;

ModelGraph small_graph() { return test::make_graph({.layers = 2}); }

Plan plan_of(const ModelGraph& graph) {
  return make_plan(graph, {.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{0}},
                           .micro_batches = devices,
                           .devices = devices,
                           .home = HomePolicy::host})
      .value();
}

// Each test makes the resource that it tests scarce.
Machine gpus_without_interconnect() {
  Machine m;
  m.device.kind = DeviceKind::cuda;
  m.device.op_overhead = Nanos{0};
  m.copies = {.h2d_bytes_per_s = 1e9,
              .d2h_bytes_per_s = 1e9,
              .both_bytes_per_s = 2e9,
              .switches = {{0, 1}, {2}},
              .switch_bytes_per_s = 1e12};
  m.host.memory_bytes_per_s = 1e12;
  return m;
}

class SimCost : public ::testing::Test {
 protected:
  // RETURNS: bytes that each device receives in the first op of the kind.
  double bytes_of_each(OpKind kind) const {
    const Op& op = first(kind);
    return static_cast<double>(collective_bytes(plan, body().operands_of(op), kind).value) / devices;
  }
  double seconds(OpKind kind, const Machine& machine) const {
    const CostModel cost(plan, graph, machine, {});
    return Fluid(cost.capacities()).alone(cost.flow(body(), first(kind)));
  }
  const Op& first(OpKind kind) const {
    const auto found = std::ranges::find(body().ops, kind, &Op::kind);
    EXPECT_NE(found, body().ops.end());
    return *found;
  }
  const Segment& body() const { return plan.segment(SegmentKind::body); }

  const ModelGraph graph = small_graph();
  const Plan plan = plan_of(graph);
};

TEST_F(SimCost, WithoutAnInterconnectCollectivesUseTheCopyLinks) {
  for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter}) {
    const double each = bytes_of_each(kind);
    ASSERT_GT(each, 0);
    EXPECT_DOUBLE_EQ(seconds(kind, gpus_without_interconnect()), each / 1e9);

    for (double CopyRates::*rate : {&CopyRates::h2d_bytes_per_s, &CopyRates::d2h_bytes_per_s}) {
      Machine one_way = gpus_without_interconnect();
      one_way.copies.*rate = 5e8;
      EXPECT_DOUBLE_EQ(seconds(kind, one_way), each / 5e8);
    }
    Machine both_ways = gpus_without_interconnect();
    both_ways.copies.both_bytes_per_s = 1e9;
    EXPECT_DOUBLE_EQ(seconds(kind, both_ways), 2 * each / 1e9);

    Machine narrow_switch = gpus_without_interconnect();
    narrow_switch.copies.switch_bytes_per_s = 1e8;
    EXPECT_DOUBLE_EQ(seconds(kind, narrow_switch), 2 * each / 1e8);  // two devices share it

    Machine slow_memory = gpus_without_interconnect();
    slow_memory.host.memory_bytes_per_s = 1e8;
    EXPECT_DOUBLE_EQ(seconds(kind, slow_memory), 2 * devices * each / 1e8);  // written and read
  }
}

TEST_F(SimCost, WithAnInterconnectCollectivesUseNothingElse) {
  Machine m = gpus_without_interconnect();
  m.copies.interconnect_bytes_per_s = 1e10;
  m.copies.switch_bytes_per_s = m.host.memory_bytes_per_s = 1e6;
  EXPECT_DOUBLE_EQ(seconds(OpKind::all_gather, m), bytes_of_each(OpKind::all_gather) / 1e10);
}

TEST_F(SimCost, WithoutAnInterconnectCollectivesAndCopiesShareEachDevicesLink) {
  const CostModel cost(plan, graph, gpus_without_interconnect(), {});
  for (u16 device = 0; device < devices; ++device) {
    const LaneId h2d{device, LaneKind::h2d};
    const auto copy = std::ranges::find(body().ops, h2d, &Op::lane);
    ASSERT_NE(copy, body().ops.end());
    const auto copied = static_cast<double>(body().operands_of(*copy)[0].frame.bytes.value);
    Fluid fluid(cost.capacities());
    u64 id = 0;
    for (Flow flow : {cost.flow(body(), *copy), cost.flow(body(), first(OpKind::all_gather))}) {
      flow.id = id++;
      fluid.add(flow);
    }
    while (!fluid.idle()) fluid.finish_next();
    EXPECT_NEAR(fluid.now(), (copied + bytes_of_each(OpKind::all_gather)) / 1e9, 1e-12) << device;
  }
}

TEST_F(SimCost, WithoutAnInterconnectASlowSwitchSlowsCollectives) {
  const Plan resident = make_plan(graph, {.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{0}},
                                          .micro_batches = devices,
                                          .devices = devices,
                                          .home = HomePolicy::device})
                            .value();
  const auto step = [&](double switch_rate) {
    Machine m = gpus_without_interconnect();
    m.copies.switch_bytes_per_s = switch_rate;
    return forecast(resident, graph, m).value().step_seconds;
  };
  EXPECT_GT(step(1e9 / 125), 10 * step(1e9));
}

TEST_F(SimCost, OnCoresCollectivesTakeCoresAndMemory) {
  Machine cpu = gpus_without_interconnect();
  cpu.device.kind = DeviceKind::cpu;
  cpu.copies.switch_bytes_per_s = 1e3;
  const double without = seconds(OpKind::all_gather, cpu);
  EXPECT_DOUBLE_EQ(without, devices * bytes_of_each(OpKind::all_gather) / 1e9);
  cpu.copies.interconnect_bytes_per_s = 1e3;
  EXPECT_EQ(seconds(OpKind::all_gather, cpu), without);
}

}  // namespace tidepool::sim_cost_test
