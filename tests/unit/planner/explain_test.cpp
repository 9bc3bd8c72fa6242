// --explain describes what the plan does.
#include "planner/explain/explain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "planner/explain/life.h"
#include "planner/planner.h"
#include "tests/support/adamw_state.h"
#include "tests/support/random_case.h"

namespace tidepool::explain_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Planned {
  ModelGraph graph;
  Plan plan;
};

Planned streaming(u32 devices = 1, u32 nodes = 1, u32 node = 0) {
  Planned p{test::make_graph({.layers = 4, .precision = Precision::bf16}), {}};
  p.plan = make_plan(p.graph, {.budgets = {Bytes{900 * kib}, Bytes{500 * kib}, Bytes{gib}},
                               .micro_batches = 2 * devices * nodes,
                               .devices = devices,
                               .nodes = nodes,
                               .node = node,
                               .chunk_bytes = Bytes{32 * kib}})
               .value();
  return p;
}

ChunkId find_chunk(const Plan& plan, Kind kind, u32 window) {
  for (u32 id = 0; id < plan.chunks.size(); ++id)
    if (plan.chunks[id].kind == kind && plan.chunks[id].window == window) return ChunkId{id};
  return ChunkId{none};
}

std::string told(const Planned& p, const std::string& what, HomePolicy home = HomePolicy::automatic) {
  return explain({.plan = p.plan, .graph = p.graph, .home = home}, "body", what).value();
}

TEST(Explain, FollowsAChunkThroughEveryOpThatTouchesIt) {
  const Planned p = streaming();
  const Segment& body = p.plan.segment(SegmentKind::body);
  for (u32 id = 0; id < p.plan.chunks.size(); ++id) {
    const std::string text = told(p, fmt::format("chunk:{}", id));
    for (u32 i = 0; i < body.ops.size(); ++i) {
      bool touched = false;
      for (const Operand& o : body.operands_of(body.ops[i]))
        touched |= id >= index(o.first) && id < index(o.first) + o.count;
      const std::string line = fmt::format("\n    op {:<6} {:<10} {:<10} ", i, name(body.ops[i].lane.kind),
                                           name(body.ops[i].kind));
      EXPECT_EQ(text.find(line) != std::string::npos, touched) << id << " at " << i << "\n" << text;
    }
  }
}

TEST(Explain, AChunkOnDiskSaysWhyAndWhatItCosts) {
  const Planned p = streaming();
  const ChunkId id = find_chunk(p.plan, test::momentum(p.plan.state_slots), 5);
  ASSERT_EQ(p.plan.homes[index(id)].tier, Tier::disk);
  const std::string text = told(p, fmt::format("chunk:{}", index(id)));
  EXPECT_THAT(text, HasSubstr("momentum of h.3 cut 0"));
  EXPECT_THAT(text, HasSubstr("h.3.weight"));
  EXPECT_THAT(text, HasSubstr("home     disk"));
  EXPECT_THAT(text, HasSubstr("not the device: of 900 KiB"));
  EXPECT_THAT(text, HasSubstr("not the host: of 500 KiB"));
  EXPECT_THAT(text, ContainsRegex("moves    disk_read [0-9.]+ KiB, disk_write [0-9.]+ KiB per step"));
  EXPECT_THAT(told(p, fmt::format("chunk:{}", index(id)), HomePolicy::disk), HasSubstr("memory.home=disk"));
}

TEST(Explain, AnOpSaysWhyItIsThere) {
  const Planned p = streaming();
  const Segment& body = p.plan.segment(SegmentKind::body);
  for (u32 i = 0; i < body.ops.size(); ++i) {
    const std::string text = told(p, fmt::format("op:{}", i));
    EXPECT_THAT(text, ContainsRegex("  why: [a-z]")) << text;
    EXPECT_THAT(text, HasSubstr(fmt::format("op {}: {} on {}", i, name(body.ops[i].kind),
                                            name(body.ops[i].lane.kind))));
  }
}

TEST(Explain, FitsEightyColumnsButForNames) {
  const Planned p = streaming();
  for (u32 id = 0; id < p.plan.chunks.size(); ++id) {
    std::istringstream lines(told(p, fmt::format("chunk:{}", id)));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Explain, NamesEachOfSeveralDevices) {
  const Planned p = streaming(2);
  const ChunkId id = find_chunk(p.plan, Kind::param, 3);
  EXPECT_THAT(told(p, fmt::format("chunk:{}", index(id))), HasSubstr("all_gather"));
}

TEST(Explain, SaysWhichOfSeveralNodesHasThePlan) {
  for (const u32 node : {0u, 1u}) {
    const Planned p = streaming(1, 2, node);
    const std::string whose = fmt::format("in the plan of node {}, one of 2 nodes\n", node);
    const Segment& body = p.plan.segment(SegmentKind::body);
    u32 sends = 0;
    for (u32 i = 0; i < body.ops.size(); ++i) {
      const std::string text = told(p, fmt::format("op:{}", i));
      EXPECT_TRUE(text.starts_with(whose)) << text;
      if (body.ops[i].kind != OpKind::send) continue;
      EXPECT_THAT(text, HasSubstr(fmt::format(" to node {}", 1 - node)));
      ++sends;
    }
    EXPECT_GT(sends, 0u);
    for (u32 id = 0; id < p.plan.chunks.size(); ++id) {
      const Chunk& chunk = p.plan.chunks[id];
      const bool elsewhere = is_persistent(chunk.kind) && chunk.kind != Kind::param && chunk.owner != node;
      const std::string text = told(p, fmt::format("chunk:{}", id));
      EXPECT_TRUE(text.starts_with(whose)) << text;
      EXPECT_EQ(text.find(fmt::format("home     on node {}", 1 - node)) != std::string::npos, elsewhere);
    }
  }
  EXPECT_THAT(told(streaming(), "op:0"), Not(HasSubstr("node")));
}

TEST(Explain, AWrongNumberIsAnErrorWithTheRange) {
  const Planned p = streaming();
  const auto message = [&](const char* what, const char* segment = "body") {
    const auto text = explain({.plan = p.plan, .graph = p.graph}, segment, what);
    EXPECT_FALSE(text) << what;
    if (text) return std::string();
    EXPECT_EQ(text.error().kind, ErrorKind::usage);
    return text.error().message;
  };
  const u64 ops = p.plan.segment(SegmentKind::body).ops.size();
  EXPECT_THAT(message("op:999999"), HasSubstr(fmt::format("segment body has 0 to {}", ops - 1)));
  EXPECT_THAT(message("op:99999999999999999999"), HasSubstr("segment body has 0 to"));
  EXPECT_THAT(message("chunk:999999"),
              HasSubstr(fmt::format("the plan has 0 to {}", p.plan.chunks.size() - 1)));
  for (const char* what : {"chunk", "chunk:", "op:", "op:1x", "op:-1", "12", ""})
    EXPECT_THAT(message(what), HasSubstr("write op:N or chunk:N")) << what;
  EXPECT_THAT(message("op:1", "bodi"), HasSubstr("no segment 'bodi'"));
}

// Stays read back from the ops never overlap in a tier, as the planner placed them.
TEST(Life, StaysOfOneMemoryDoNotOverlap) {
  const Planned p = streaming();
  const Life life(p.plan, p.plan.segment(SegmentKind::body));
  for (u32 op = 0; op < life.ops(); ++op) {
    for (const Tier tier : {Tier::device, Tier::host}) {
      std::vector<const TierStay*> there;
      for (const TierStay& s : life.stays())
        if (s.frame.tier == tier && life.covers(s, op)) there.push_back(&s);
      std::sort(there.begin(), there.end(),
                [](auto* a, auto* b) { return a->frame.offset < b->frame.offset; });
      for (u64 i = 1; i < there.size(); ++i)
        EXPECT_LE(there[i - 1]->frame.end(), there[i]->frame.offset)
            << "op " << op << ", chunks " << index(there[i - 1]->chunk) << " and " << index(there[i]->chunk);
      EXPECT_LE(life.in_use({.tier = tier}, op), p.plan.tiers[static_cast<u32>(tier)].planned_peak);
    }
  }
}

}  // namespace tidepool::explain_test
