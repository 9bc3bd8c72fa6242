// Frozen windows beside trainable ones: their parameters are only read, and backward runs only as far as
// necessary.
#include <gtest/gtest.h>

#include <random>

#include "planner/bound/lower_bound.h"
#include "planner/planner.h"
#include "tests/support/random_case.h"

namespace tidepool::frozen_test {

bool is_frozen(const ModelGraph& graph, const Chunk& chunk) {
  return chunk.window != none && !graph.windows[chunk.window].trainable;
}

// As with LoRA: everything is frozen, and a small trainable window stands beside each layer's window.
ModelGraph with_adapters(ModelGraph graph) {
  for (Window& window : graph.windows) window.trainable = false;
  for (Block& block : graph.blocks) {
    if (block.kind == BlockKind::embedding || block.kind == BlockKind::head) continue;
    Window window = graph.windows[block.windows[0]];
    window.name += ".lora";
    window.elements = window.parameters = cut_alignment_elements;
    window.tensors.resize(1);
    window.tensors[0].window_offset = 0;
    window.tensors[0].elements = window.elements;
    window.trainable = window.adapter = true;
    block.windows.push_back(static_cast<u32>(graph.windows.size()));
    graph.windows.push_back(std::move(window));
  }
  return graph;
}

ModelGraph some_frozen(ModelGraph graph, u32 seed) {
  std::mt19937 rng(seed);
  for (Window& window : graph.windows) window.trainable = rng() % 2 == 0;
  graph.windows[rng() % graph.windows.size()].trainable = true;
  return graph;
}

void check_frozen(const ModelGraph& graph, const Plan& plan) {
  for (const Chunk& chunk : plan.chunks)
    EXPECT_TRUE(!is_frozen(graph, chunk) || chunk.kind == Kind::param) << name(chunk.kind);
  const u32 last = last_backward_block(graph);
  for (const Segment& segment : plan.segments)
    for (const Op& op : segment.ops) {
      if (op.kind == OpKind::backward) {
        EXPECT_GE(op.block, last);
      }
      if (op.kind == OpKind::update || op.kind == OpKind::gradient || op.kind == OpKind::reduce_scatter) {
        EXPECT_TRUE(graph.windows[op.window].trainable) << name(op.kind);
      }
      for (const Operand& o : segment.operands_of(op))
        if (is_frozen(graph, plan.chunk(o.first)) && writes(o.access)) {
          EXPECT_TRUE(op.kind == OpKind::read || op.kind == OpKind::copy || op.kind == OpKind::all_gather)
              << name(op.kind);
          EXPECT_NE(op.lane.kind, LaneKind::d2h);
        }
    }
  const auto least = lower_bound(plan, graph), moved = link_bytes(plan, SegmentKind::body);
  for (u32 l = 0; l < link_count; ++l)
    EXPECT_LE(least[l].value, moved[l].value) << name(static_cast<LinkKind>(l));
}

// make_plan returns only plans that the verifier accepts.
TEST(PlanFrozen, AnyWindowsOfAnyCase) {
  u32 planned = 0;
  for (u32 seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    test::RandomCase c = test::random_case(seed, 1 + seed % 2);
    c.options.advise = false;
    for (const bool adapters : {true, false}) {
      const ModelGraph plain = test::make_graph(c.shape);
      const ModelGraph graph = adapters ? with_adapters(plain) : some_frozen(plain, seed);
      const auto plan = make_plan(graph, c.options);
      if (plan) {
        ++planned;
        check_frozen(graph, *plan);
        continue;
      }
      EXPECT_EQ(plan.error().kind, ErrorKind::does_not_fit) << plan.error().message;
      if (!adapters) {
        EXPECT_FALSE(make_plan(plain, c.options))
            << "a model fits that is trained as a whole, and not in part";
      }
    }
  }
  EXPECT_GT(planned, 200u);
}

TEST(PlanFrozen, TrainedStateRestsOnTheDeviceAndTheModelStreams) {
  for (const bool clipping : {true, false}) {
    const ModelGraph graph = with_adapters(test::make_graph({.layers = 12, .layer_elements = 64 * kib}));
    const auto plan =
        make_plan(graph, {.budgets = {Bytes{3 * mib / 2}, Bytes{mib}, Bytes{gib}}, .clipping = clipping});
    ASSERT_TRUE(plan) << plan.error().message;
    for (u32 id = 0; id < plan->chunks.size(); ++id) {
      const Chunk& chunk = plan->chunks[id];
      if (!is_persistent(chunk.kind) || is_frozen(graph, chunk)) continue;
      EXPECT_EQ(plan->homes[id].tier, Tier::device) << id;
    }
    const auto moved = link_bytes(*plan, SegmentKind::body);
    EXPECT_GT(moved[static_cast<u32>(LinkKind::disk_read)].value, 0u);
    // Down go at most activations: neither trained state nor the model.
    const Segment& body = plan->segment(SegmentKind::body);
    for (const Op& op : body.ops) {
      if (op.kind == OpKind::write) {
        EXPECT_EQ(plan->chunk(body.operands_of(op)[0].first).kind, Kind::activation);
      }
      if (op.kind == OpKind::update) {
        EXPECT_EQ(op.lane.kind, LaneKind::compute);
      }
    }
  }
}

}  // namespace tidepool::frozen_test
