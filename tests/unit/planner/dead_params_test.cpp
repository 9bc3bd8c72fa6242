// fp16: a parameter is dead from its last use in a step until its update remakes it, and gradients wait in
// the bytes of dead parameters (docs/decisions/0018). Tests the memory saved, and plans altered so that they
// read dead content.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "planner/bound/lower_bound.h"
#include "planner/frame_arcs.h"
#include "planner/planner.h"
#include "planner/verify/verify.h"
#include "tests/support/adamw_state.h"
#include "tests/support/random_case.h"

namespace tidepool::dead_params_test {

using ::testing::HasSubstr;
using enum SegmentKind;

const ModelGraph& graph() {
  static const ModelGraph g =
      test::make_graph({.layers = 12, .layer_elements = 2048 * 64, .precision = Precision::fp16});
  return g;
}

u64 elements() {
  u64 sum = 0;
  for (const Window& w : graph().windows) sum += w.elements;
  return sum;
}

PlanOptions options_of(HomePolicy home, u32 devices = 1) {
  return {.budgets = {Bytes{home == HomePolicy::device ? 32 * mib : 3 * mib}, Bytes{64 * mib}, Bytes{gib}},
          .micro_batches = 2 * devices,
          .devices = devices,
          .home = home,
          .chunk_bytes = Bytes{128 * kib}};
}

Plan plan_of(HomePolicy home, u32 devices = 1) {
  auto plan = make_plan(graph(), options_of(home, devices));
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(plan).value();
}

bool overlap(const Frame& a, const Frame& b) {
  return a.bytes.value > 0 && b.bytes.value > 0 && a.tier == b.tier && a.device == b.device &&
         a.offset < b.end() && b.offset < a.end();
}

// RETURNS: number of gradient chunks of a body that are for a while in bytes of a parameter's home.
u32 gradients_in_homes(const Plan& plan) {
  std::vector<bool> there(plan.chunks.size(), false);
  for (const Operand& o : plan.segment(body).operands) {
    if (plan.chunk(o.first).kind != Kind::grad) continue;
    for (u32 id = 0; id < plan.homes.size(); ++id)
      if (plan.chunks[id].kind == Kind::param && overlap(o.frame, plan.homes[id]))
        there[index(o.first)] = true;
  }
  return static_cast<u32>(std::count(there.begin(), there.end(), true));
}

u32 gradients_of(const Plan& plan) {
  return static_cast<u32>(std::count_if(plan.chunks.begin(), plan.chunks.end(),
                                        [](const Chunk& c) { return c.kind == Kind::grad; }));
}

TEST(DeadParams, HoldNearlyAllGradients) {
  for (const HomePolicy home : {HomePolicy::host, HomePolicy::device})
    for (const u32 devices : {1u, 2u}) {
      const Plan plan = plan_of(home, devices);
      EXPECT_GT(10 * gradients_in_homes(plan), 8 * gradients_of(plan))
          << (home == HomePolicy::host ? "host" : "device") << " of " << devices;
    }
}

// A gradient spilled to disk takes no disk space of its own.
TEST(DeadParams, OnDiskAreTheFramesOfTheirGradients) {
  PlanOptions options = options_of(HomePolicy::disk);
  options.advise = false;
  options.budgets.disk = Bytes{14 * elements()};
  u64 fails = 0, does = 4096;  // pages of host memory
  while (fails + 1 < does) {
    const u64 middle = (fails + does) / 2;
    options.budgets.host = Bytes{middle * frame_alignment};
    (check_fits(graph(), options) ? does : fails) = middle;
  }
  options.budgets.host = Bytes{does * frame_alignment};
  const Result<Plan> plan = make_plan(graph(), options);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->tiers[static_cast<u32>(Tier::disk)].planned_peak.value, 14 * elements());
  const auto moved = link_bytes(*plan, body), least = lower_bound(*plan, graph());
  for (u32 l = 0; l < link_count; ++l) EXPECT_GE(moved[l], least[l]) << name(static_cast<LinkKind>(l));
}

// docs/fit.md relies on this: 14 bytes per parameter, with all gradients waiting, plus what streaming needs.
TEST(DeadParams, LeaveFourteenBytesPerParameter) {
  for (const u32 devices : {1u, 4u}) {
    PlanOptions options{.budgets = {Bytes{4 * mib}, Bytes{}, Bytes{0}},
                        .micro_batches = devices,  // more activations would bind if all parameters are alive
                        .devices = devices,
                        .advise = false};
    u64 fails = 0, does = 64 * kib;  // pages of host memory
    while (fails + 1 < does) {
      const u64 middle = (fails + does) / 2;
      options.budgets.host = Bytes{middle * frame_alignment};
      (check_fits(graph(), options) ? does : fails) = middle;
    }
    options.budgets.host = Bytes{does * frame_alignment};
    ASSERT_TRUE(make_plan(graph(), options));
    const u64 all = options.budgets.device.value * devices + options.budgets.host.value;
    // As in PlannerHomes: all but about 2 of each device's 4 MiB is useful. 16 bytes would be 3 MiB more.
    EXPECT_LT(all, 14 * elements() + (1 + 2 * devices) * mib) << devices;
  }
}

TEST(DeadParams, AreNeitherReadFromDiskForAnUpdateNorWrittenToDieThere) {
  const Plan plan = plan_of(HomePolicy::disk);
  for (const Op& op : plan.segment(body).ops) {
    if (op.kind != OpKind::update) continue;
    const auto operands = plan.segment(body).operands_of(op);
    const auto param = std::find_if(operands.begin(), operands.end(), [&](const Operand& o) {
      return plan.chunk(o.first).kind == Kind::param;
    });
    EXPECT_EQ(param->access, Access::write);
  }
  // Each goes to disk only to come back, once, before it dies.
  std::map<u32, int> on_disk;
  u64 written = 0;
  for (const Op& op : plan.segment(body).ops) {
    if (op.kind != OpKind::read && op.kind != OpKind::write) continue;
    const ChunkId chunk = plan.segment(body).operands_of(op)[0].first;
    if (plan.chunk(chunk).kind != Kind::param) continue;
    written += op.kind == OpKind::write;
    on_disk[index(chunk)] += op.kind == OpKind::write ? 1 : -1;
  }
  EXPECT_GT(written, 0u);
  for (const auto& [chunk, balance] : on_disk) EXPECT_EQ(balance, 0) << chunk;
}

// The arcs that the report draws, as the planner placed them, do not overlap.
TEST(DeadParams, ShareNoByteAtOneTime) {
  for (const HomePolicy home : {HomePolicy::host, HomePolicy::device, HomePolicy::automatic}) {
    const Plan plan = plan_of(home);
    const Segment& segment = plan.segment(body);
    const auto arcs = frame_arcs(plan, segment);
    const auto at = [&](const FrameArc& arc, u32 op) {
      return arc.permanent() ||
             (arc.from <= arc.to ? arc.from <= op && op <= arc.to : op >= arc.from || op <= arc.to);
    };
    for (u32 op = 0; op < segment.ops.size(); op += 7)
      for (const Tier tier : {Tier::device, Tier::host}) {
        std::vector<std::pair<u64, u64>> there;
        for (const FrameArc& arc : arcs)
          if (arc.tier == tier && at(arc, op))
            there.emplace_back(arc.offset, arc.offset + plan.chunk(arc.chunk).bytes.value);
        std::sort(there.begin(), there.end());
        for (u64 i = 1; i < there.size(); ++i)
          ASSERT_LE(there[i - 1].second, there[i].first) << op << name(tier);
      }
  }
}

// Random models with and without a disk, several devices and sweeps; make_plan returns only verified plans.
TEST(DeadParams, VerifyInRandomPlans) {
  u32 fitted = 0, shared = 0;
  for (u32 seed = 0; seed < 300; ++seed) {
    test::RandomCase c = test::random_case(seed, 1 + seed % 4);
    c.shape.precision = Precision::fp16;
    c.options.advise = false;
    if (seed % 3 == 0) c.options.budgets = {c.options.budgets.device, Bytes{4 * mib}, Bytes{0}};
    const ModelGraph random = test::make_graph(c.shape);
    const Result<Plan> plan = make_plan(random, c.options);
    if (!plan) {
      EXPECT_EQ(plan.error().kind, ErrorKind::does_not_fit) << seed << ": " << plan.error().message;
      continue;
    }
    ++fitted;
    shared += gradients_in_homes(*plan) > 0;
    if (c.options.home != HomePolicy::automatic) continue;
    const auto moved = link_bytes(*plan, body), least = lower_bound(*plan, random);
    for (u32 l = 0; l < link_count; ++l)
      EXPECT_GE(moved[l], least[l]) << seed << name(static_cast<LinkKind>(l));
  }
  EXPECT_GT(fitted, 80u);
  EXPECT_GT(shared, 50u);
}

// ---- canaries

std::string refusal(const Plan& plan) {
  const Result<void> verified = verify_plan(plan, graph());
  return verified ? "accepted" : verified.error().message;
}

// A gradient is copied into the home of a parameter that backward will still read.
TEST(DeadParams, MustNotBeOverwrittenWhileAlive) {
  Plan plan = plan_of(HomePolicy::host);
  Segment& segment = plan.segments[static_cast<u32>(body)];
  u32 last_read = 0;  // of any parameter, by an h2d copy
  for (u32 i = 0; i < segment.ops.size(); ++i)
    if (segment.ops[i].lane.kind == LaneKind::h2d &&
        plan.chunk(segment.operands_of(segment.ops[i])[0].first).kind == Kind::param)
      last_read = i;
  const ChunkId alive = segment.operands_of(segment.ops[last_read])[0].first;
  bool spoilt = false;
  for (u32 i = 0; i < last_read && !spoilt; ++i) {
    const Op& op = segment.ops[i];
    if (op.lane.kind != LaneKind::d2h) continue;
    Operand& to = segment.operands[op.operands_begin + 1];
    if (plan.chunk(to.first).kind != Kind::grad || to.frame.bytes > plan.homes[index(alive)].bytes) continue;
    to.frame.offset = plan.homes[index(alive)].offset;
    spoilt = true;
  }
  ASSERT_TRUE(spoilt);
  EXPECT_NE(refusal(plan), "accepted");
}

// Adds one more h2d copy while a gradient lies in the parameter's bytes.
TEST(DeadParams, MustNotBeRead) {
  Plan plan = plan_of(HomePolicy::host);
  Segment& segment = plan.segments[static_cast<u32>(body)];
  const auto is_param_copy = [&](const Op& op) {
    return op.lane.kind == LaneKind::h2d && plan.chunk(segment.operands_of(op)[0].first).kind == Kind::param;
  };
  u32 dead = 0;  // first copy in the last pass of a parameter whose home a gradient takes
  for (u32 i = 0; i < segment.ops.size(); ++i) {
    if (!is_param_copy(segment.ops[i])) continue;
    const Frame& home = plan.homes[index(segment.operands_of(segment.ops[i])[0].first)];
    for (u32 j = i + 1; j < segment.ops.size(); ++j) {
      const Op& op = segment.ops[j];
      if (op.lane.kind == LaneKind::d2h && overlap(segment.operands_of(op)[1].frame, home)) dead = i;
    }
  }
  ASSERT_GT(dead, 0u);
  // The copy runs as the last op, after everything.
  Op late = segment.ops[dead];
  late.deps_begin = static_cast<u32>(segment.deps.size());
  late.deps_count = static_cast<u32>(segment.ops.size());
  for (u32 i = 0; i < segment.ops.size(); ++i) segment.deps.push_back(OpId{i});
  segment.ops.push_back(late);
  EXPECT_THAT(refusal(plan), HasSubstr("but finds chunk"));
}

TEST(DeadParams, AreAllThatAnUpdateNeedNotRead) {
  const auto spoilt = [](Kind kind, Access access) {
    Plan plan = plan_of(HomePolicy::host);
    for (Segment& segment : plan.segments)
      for (const Op& op : segment.ops)
        for (u32 i = 0; i < op.operands_count && op.kind == OpKind::update; ++i) {
          Operand& o = segment.operands[op.operands_begin + i];
          if (plan.chunk(o.first).kind == kind) o.access = access;
        }
    return refusal(plan);
  };
  EXPECT_THAT(spoilt(Kind::param, Access::read_write), HasSubstr("does not find all"));
  EXPECT_THAT(spoilt(test::adamw_state(Precision::fp16).master(), Access::write),
              HasSubstr("does not find all"));
  EXPECT_THAT(spoilt(Kind::grad, Access::write), HasSubstr("does not find all"));
}

// A segment that starts at rest must leave every home as it found it, whoever reads the home next.
TEST(DeadParams, AreWholeAgainAtRest) {
  Plan plan = plan_of(HomePolicy::host);
  Segment& segment = plan.segments[static_cast<u32>(evaluation)];
  Op late;
  for (const Op& op : segment.ops)
    if (op.kind == OpKind::load_batch) late = op;
  Operand batch = segment.operands_of(late)[0];
  for (u32 id = 0; id < plan.homes.size(); ++id)
    if (plan.chunks[id].kind == test::momentum(plan.state_slots)) batch.frame.offset = plan.homes[id].offset;
  late.operands_begin = static_cast<u32>(segment.operands.size());
  late.operands_count = 1;
  segment.operands.push_back(batch);
  late.deps_begin = static_cast<u32>(segment.deps.size());
  late.deps_count = static_cast<u32>(segment.ops.size());
  for (u32 i = 0; i < segment.ops.size(); ++i) segment.deps.push_back(OpId{i});
  segment.ops.push_back(late);
  EXPECT_THAT(refusal(plan), HasSubstr("at rest the home of chunk"));
}

}  // namespace tidepool::dead_params_test
