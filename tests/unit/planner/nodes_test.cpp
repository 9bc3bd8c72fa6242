// Plans of several nodes: they fit each other, move the least over the network, and a fault in one is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fit/forecast.h"
#include "planner/bound/lower_bound.h"
#include "planner/planner.h"
#include "planner/verify/verify.h"
#include "planner/verify/verify_nodes.h"
#include "tests/support/cases.h"
#include "tests/support/support_graph.h"

namespace tidepool::nodes_test {

constexpr u64 granule = norm_granule_elements;

ModelGraph graph_of(Precision precision, u64 layer_elements = 5 * granule + 2048, u32 layers = 3) {
  return test::make_graph({.layers = layers,
                           .layer_elements = layer_elements,
                           .embedding_elements = 3 * granule,
                           .boundary_bytes = 16 * kib,
                           .workspace_bytes = 16 * kib,
                           .precision = precision});
}

struct Case {
  Precision precision = Precision::bf16;
  u32 nodes = 2, devices = 1, micro_batches = 2;  // of each device
  u32 sweeps = 0;
  bool clipping = true;
  Bytes device{32 * mib}, host{32 * mib};
  HomePolicy home = HomePolicy::automatic;
};

std::string text(const Case& c) {
  return std::string(name(c.precision)) + " " + std::to_string(c.nodes) + " nodes of " +
         std::to_string(c.devices) + (c.clipping ? " clipped" : "") + " host " +
         std::to_string(c.host.value / kib) + " KiB, sweeps " + std::to_string(c.sweeps) + ", home " +
         std::to_string(static_cast<int>(c.home));
}

PlanOptions options_of(const Case& c) {
  return {.budgets = {c.device, c.host, Bytes{gib}},
          .micro_batches = c.micro_batches * c.nodes * c.devices,
          .devices = c.devices,
          .nodes = c.nodes,
          .clipping = c.clipping,
          .home = c.home,
          .chunk_bytes = Bytes{4 * granule},
          .sweeps = c.sweeps};
}

std::vector<Plan> plans_of(const ModelGraph& graph, const Case& c) {
  std::vector<Plan> plans;
  PlanOptions options = options_of(c);
  for (options.node = 0; options.node < c.nodes; ++options.node) {
    Result<Plan> plan = make_plan(graph, options);
    EXPECT_TRUE(plan) << text(c) << ": " << plan.error().message;
    if (!plan) return {};
    plans.push_back(std::move(plan).value());
  }
  return plans;
}

void expect_they_fit(const ModelGraph& graph, const Case& c) {
  const std::vector<Plan> plans = plans_of(graph, c);
  if (plans.empty()) return;
  const Result<void> verified = verify_nodes(plans, graph);
  EXPECT_TRUE(verified) << text(c) << ": " << verified.error().message;
}

TEST(Nodes, PlansOfAllNodesFitEachOther) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const ModelGraph graph = graph_of(precision);
    for (const bool clipping : {true, false}) {
      if (precision == Precision::fp16 && !clipping) continue;
      for (const u32 nodes : {2u, 3u, 5u})
        for (const u32 devices : {1u, 2u})
          for (const HomePolicy home :
               {HomePolicy::automatic, HomePolicy::host, HomePolicy::disk, HomePolicy::mixed})
            for (const Bytes host : {Bytes{12 * mib}, Bytes{64 * mib}}) {
              if (home == HomePolicy::host && host < Bytes{64 * mib}) continue;
              expect_they_fit(graph, {.precision = precision,
                                      .nodes = nodes,
                                      .devices = devices,
                                      .clipping = clipping,
                                      .device = Bytes{12 * mib},
                                      .host = host,
                                      .home = home});
            }
      expect_they_fit(graph, {.precision = precision, .micro_batches = 4, .sweeps = 2, .clipping = clipping});
    }
  }
}

TEST(Nodes, OfDifferentMemoryFitEachOther) {
  const ModelGraph graph = graph_of(Precision::bf16);
  std::vector<Plan> plans;
  for (u32 node = 0; node < 3; ++node) {
    PlanOptions options = options_of({.nodes = 3, .host = Bytes{(u64{8} << (2 * node)) * mib}});
    options.node = node;
    Result<Plan> plan = make_plan(graph, options);
    ASSERT_TRUE(plan) << plan.error().message;
    plans.push_back(std::move(plan).value());
  }
  const Result<void> verified = verify_nodes(plans, graph);
  EXPECT_TRUE(verified) << verified.error().message;
}

TEST(Nodes, RandomJobsFitOrAreRefusedWithBudgetsThatFit) {
  u32 fitted = 0;
  const u32 cases = test::random_cases(240);
  for (u32 seed = 0; seed < cases; ++seed) {
    std::mt19937 rng(seed);
    const auto pick = [&](auto... values) {
      const std::common_type_t<decltype(values)...> list[] = {values...};
      return list[rng() % (sizeof list / sizeof list[0])];
    };
    const Precision precision = pick(Precision::fp32, Precision::bf16, Precision::fp16);
    const ModelGraph graph =
        graph_of(precision, pick(u64{2048}, granule, 2 * granule + 6144, 9 * granule), pick(1u, 2u, 5u));
    const Case c{
        .precision = precision,
        .nodes = pick(2u, 3u, 4u, 7u),
        .devices = pick(1u, 1u, 2u),
        .micro_batches = pick(1u, 2u, 4u),
        .clipping = precision == Precision::fp16 || pick(true, false),
        .device = Bytes{u64{256 * kib} << (rng() % 8)},
        .host = Bytes{u64{256 * kib} << (rng() % 9)},
        .home = pick(HomePolicy::automatic, HomePolicy::automatic, HomePolicy::disk, HomePolicy::mixed)};
    PlanOptions options = options_of(c);
    options.advise = false;
    std::vector<Plan> plans;
    for (options.node = 0; options.node < c.nodes; ++options.node) {
      Result<Plan> plan = make_plan(graph, options);
      if (!plan) {
        EXPECT_EQ(plan.error().kind, ErrorKind::does_not_fit) << seed << ": " << plan.error().message;
        break;
      }
      plans.push_back(std::move(plan).value());
    }
    if (plans.size() != c.nodes) continue;
    ++fitted;
    const Result<void> verified = verify_nodes(plans, graph);
    EXPECT_TRUE(verified) << "seed " << seed << ", " << text(c) << ": " << verified.error().message;
  }
  EXPECT_GT(fitted, cases / 3);
}

TEST(Nodes, EachUpdatesItsCutsAndReceivesTheOthers) {
  const ModelGraph graph = graph_of(Precision::bf16);
  std::vector<u32> updates, arrivals;
  const std::vector<Plan> plans = plans_of(graph, {.nodes = 3});
  ASSERT_EQ(plans.size(), 3u);
  updates.resize(plans[0].chunks.size()), arrivals.resize(plans[0].chunks.size());
  for (const Plan& plan : plans) {
    const Segment& body = plan.segment(SegmentKind::body);
    for (const Op& op : body.ops)
      for (const Operand& o : body.operands_of(op))
        if (writes(o.access) && plan.chunk(o.first).kind == Kind::param) {
          updates[index(o.first)] += op.kind == OpKind::update;
          arrivals[index(o.first)] += op.kind == OpKind::receive;
        }
  }
  u32 params = 0;
  for (u32 id = 0; id < updates.size(); ++id) {
    if (plans[0].chunks[id].kind != Kind::param) continue;
    ++params;
    EXPECT_EQ(updates[id], 1u) << id;
    EXPECT_EQ(arrivals[id], 2u) << id;
  }
  EXPECT_GT(params, 6u);
}

// docs/lower-bounds.md has the bound. Scalars, and cuts that cannot be dealt out evenly, are beyond it.
TEST(Nodes, MoveLittleMoreThanTheLeastOverTheNetwork) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const ModelGraph graph = graph_of(precision, 240 * granule, 4);
    for (const u32 nodes : {2u, 4u}) {
      const std::vector<Plan> plans = plans_of(
          graph, {.precision = precision, .nodes = nodes, .device = Bytes{gib}, .host = Bytes{2 * gib}});
      ASSERT_EQ(plans.size(), nodes);
      for (const Plan& plan : plans) {
        const NetBytes moved = net_bytes(plan, SegmentKind::body);
        const double least = static_cast<double>(net_lower_bound(plan, graph).value);
        for (const Bytes bytes : {moved.sent, moved.received}) {
          EXPECT_LE(static_cast<double>(bytes.value), 1.02 * least) << nodes << " " << plan.node;
          EXPECT_GE(static_cast<double>(bytes.value), 0.98 * least) << nodes << " " << plan.node;
        }
      }
    }
  }
}

TEST(Nodes, MoveAtLeastTheBoundOnEveryLinkAndExactlyItWhereAllFits) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const ModelGraph graph = graph_of(precision);
    for (const bool clipping : {true, false})
      for (const Bytes host : {Bytes{12 * mib}, Bytes{16 * mib}, Bytes{24 * mib}, Bytes{256 * mib}}) {
        if (precision == Precision::fp16 && !clipping) continue;
        const Case c{.precision = precision, .clipping = clipping, .device = Bytes{12 * mib}, .host = host};
        for (const Plan& plan : plans_of(graph, c)) {
          const auto moved = link_bytes(plan, SegmentKind::body), bound = lower_bound(plan, graph);
          for (u32 l = 0; l < link_count; ++l)
            EXPECT_GE(moved[l], bound[l])
                << text(c) << " " << name(static_cast<LinkKind>(l)) << " of node " << plan.node;
          if (host.value < 256 * mib) continue;
          EXPECT_EQ(moved[static_cast<u32>(LinkKind::disk_read)].value, 0u) << text(c);
          EXPECT_EQ(moved[static_cast<u32>(LinkKind::disk_write)].value, 0u) << text(c);
        }
      }
  }
}

TEST(Nodes, SimulatedStepsFindWhatTheyReadAndTakeAsLongAsTheNetwork) {
  const ModelGraph graph = graph_of(Precision::bf16, 100 * granule, 4);
  Machine machine;
  machine.disk.capacity = Bytes{gib};
  machine.network = {.nodes = 2, .bytes_per_s = 1e8, .latency = Nanos{10'000}};
  for (const Bytes host : {Bytes{160 * mib}, Bytes{gib}}) {
    const std::vector<Plan> plans = plans_of(graph, {.device = Bytes{256 * mib}, .host = host});
    ASSERT_EQ(plans.size(), 2u);
    for (const Plan& plan : plans) {
      const Result<Forecast> slow = forecast(plan, graph, machine, {});
      ASSERT_TRUE(slow) << slow.error().message;
      const double network = static_cast<double>(net_bytes(plan, SegmentKind::body).received.value) / 1e8;
      EXPECT_GE(slow->step_seconds, network * 0.99);
      EXPECT_LE(slow->step_seconds, network * 1.6);
      EXPECT_EQ(slow->binds, "net");
      Machine faster = machine;
      faster.network.bytes_per_s = 1e12;
      const Result<Forecast> fast = forecast(plan, graph, faster, {});
      ASSERT_TRUE(fast) << fast.error().message;
      EXPECT_LT(fast->step_seconds, slow->step_seconds / 4);
    }
  }
}

// ---- canaries

class NodesCanary : public testing::Test {
 protected:
  NodesCanary() : plans_(plans_of(graph_, {.nodes = 2})) {}

  Segment& body(u32 node) { return plans_[node].segments[static_cast<u32>(SegmentKind::body)]; }

  u32 find(u32 node, OpKind kind, Kind content, u32 from = 0) {
    Segment& segment = body(node);
    for (u32 i = from; i < segment.ops.size(); ++i)
      if (segment.ops[i].kind == kind &&
          plans_[node].chunk(segment.operands_of(segment.ops[i])[0].first).kind == content)
        return i;
    ADD_FAILURE() << name(kind);
    return 0;
  }

  void remove(u32 node, u32 op) {
    Segment& segment = body(node);
    segment.ops.erase(segment.ops.begin() + op);
    for (Op& other : segment.ops) {
      std::vector<OpId> kept;
      for (const OpId dep : segment.deps_of(other))
        if (index(dep) != op) kept.push_back(OpId{index(dep) - (index(dep) > op ? 1 : 0)});
      other.deps_begin = static_cast<u32>(segment.deps.size());
      other.deps_count = static_cast<u32>(kept.size());
      segment.deps.insert(segment.deps.end(), kept.begin(), kept.end());
    }
    for (Link& link : plans_[node].links) {
      std::vector<LinkEdge> kept;
      for (LinkEdge edge : link.edges) {
        const auto moved = [&](OpId id, SegmentKind of) {
          return of == SegmentKind::body && index(id) > op ? OpId{index(id) - 1} : id;
        };
        if ((link.from == SegmentKind::body && index(edge.from) == op) ||
            (link.to == SegmentKind::body && index(edge.to) == op))
          continue;
        kept.push_back({moved(edge.from, link.from), moved(edge.to, link.to)});
      }
      link.edges = kept;
    }
  }

  // REQUIRES: neither op waits for the other.
  void swap_with_next(u32 node, u32 op) {
    Segment& segment = body(node);
    std::swap(segment.ops[op], segment.ops[op + 1]);
    const auto swapped = [&](OpId id) {
      return index(id) == op ? OpId{op + 1} : index(id) == op + 1 ? OpId{op} : id;
    };
    for (OpId& dep : segment.deps) dep = swapped(dep);
    for (Link& link : plans_[node].links) {
      for (LinkEdge& edge : link.edges) {
        if (link.from == SegmentKind::body) edge.from = swapped(edge.from);
        if (link.to == SegmentKind::body) edge.to = swapped(edge.to);
      }
      std::ranges::sort(link.edges, {},
                        [](const LinkEdge& e) { return std::pair(index(e.to), index(e.from)); });
    }
  }

  void add_dep(u32 node, u32 op, u32 dep) {
    Segment& segment = body(node);
    std::vector<OpId> deps(segment.deps_of(segment.ops[op]).begin(), segment.deps_of(segment.ops[op]).end());
    deps.push_back(OpId{dep});
    segment.ops[op].deps_begin = static_cast<u32>(segment.deps.size());
    segment.ops[op].deps_count = static_cast<u32>(deps.size());
    segment.deps.insert(segment.deps.end(), deps.begin(), deps.end());
  }

  void expect_refusal(const std::string& part) {
    const Result<void> verified = verify_nodes(plans_, graph_);
    ASSERT_FALSE(verified) << part;
    EXPECT_NE(verified.error().message.find(part), std::string::npos) << verified.error().message;
  }

  const ModelGraph graph_ = graph_of(Precision::bf16);
  std::vector<Plan> plans_;
};

TEST_F(NodesCanary, IsRefusedWithoutASend) {
  remove(0, find(0, OpKind::send, Kind::grad_accum));
  expect_refusal("from node 0 to node 1 is received but never sent");
}

TEST_F(NodesCanary, IsRefusedWithoutAReceive) {
  remove(1, find(1, OpKind::receive, Kind::grad_part));
  expect_refusal("combine on host");
}

TEST_F(NodesCanary, IsRefusedIfAParameterGoesTwiceToOneNode) {
  plans_ = plans_of(graph_, {.nodes = 3});
  const u32 send = find(0, OpKind::send, Kind::param), next = find(0, OpKind::send, Kind::param, send + 1);
  EXPECT_EQ(body(0).ops[send].window, body(0).ops[next].window);
  body(0).ops[next].peer = body(0).ops[send].peer;
  expect_refusal("makes param of window 0 cut 0 from node 0 to node 1 twice");
}

TEST_F(NodesCanary, IsRefusedIfTwoNodesWaitForEachOther) {
  for (u32 node = 0; node < 2; ++node) {
    const u32 send = find(node, OpKind::send, Kind::scalars),
              receive = find(node, OpKind::receive, Kind::scalars);
    ASSERT_EQ(send + 1, receive);
    swap_with_next(node, send);
    add_dep(node, receive, send);  // the send is behind the receive now, and waits for it
  }
  expect_refusal("waits in a circle between nodes");
}

TEST_F(NodesCanary, IsRefusedWithAWrongOwner) {
  Plan& plan = plans_[1];
  Chunk& chunk =
      plan.chunks[index(body(1).operands_of(body(1).ops[find(1, OpKind::receive, Kind::param)])[0].first)];
  chunk.owner = 1;
  expect_refusal("is not between the node that has the content and another");
}

TEST_F(NodesCanary, IsRefusedIfAPeerIsWrong) {
  body(0).ops[find(0, OpKind::send, Kind::param)].peer = 0;
  expect_refusal("is not between the node that has the content and another");
}

TEST_F(NodesCanary, IsRefusedIfPartsAreSummedInAnotherOrder) {
  Segment& segment = body(0);
  for (Op& op : segment.ops)
    if (op.kind == OpKind::combine) {
      std::swap(segment.operands[op.operands_begin], segment.operands[op.operands_begin + 1]);
      break;
    }
  expect_refusal("does not sum one part of each node, in their order");
}

TEST_F(NodesCanary, IsRefusedIfAPartIsSentBeforeItIsWhole) {
  Segment& segment = body(0);
  segment.operands[segment.ops[find(0, OpKind::send, Kind::grad_accum)].operands_begin].version -= 1;
  expect_refusal("version");
}

}  // namespace tidepool::nodes_test
