// Rules per group of tensors: units of updates, their cuts and their state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "chunk_manager/layout.h"
#include "planner/planner.h"
#include "planner/verify/verify_units.h"
#include "tests/support/small_training.h"
#include "tidepool/tensor_matrices.h"
#include "tidepool/update_units.h"

namespace tidepool::units_test {

using namespace test;  // small_training.h
using ::testing::HasSubstr;

TEST(UpdateUnits, OfOneRuleAreWholeWindows) {
  const ModelGraph graph = small_gpt(Precision::bf16);
  for (const Window& window : graph.windows) {
    const std::vector<UpdateUnit> units = update_units(graph, window);
    ASSERT_EQ(units.size(), 1u);
    EXPECT_EQ(units[0].elements, window.elements);
  }
}

TEST(UpdateUnits, CoverWindowsAndEndWhereRulesOrTheirTensorsEnd) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  for (const Window& window : graph.windows) {
    u64 end = 0;
    for (const UpdateUnit& unit : update_units(graph, window)) {
      EXPECT_EQ(unit.begin, end);
      EXPECT_EQ(unit.begin % norm_granule_elements, 0u);
      end = unit.end();
      u32 tensors = 0;
      for (const Tensor& tensor : window.tensors) {
        if (tensor.window_offset < unit.begin || tensor.window_offset >= end) continue;
        EXPECT_EQ(tensor.rule, unit.rule) << tensor.name;
        ++tensors;
      }
      EXPECT_TRUE(unit.rule != 0 || tensors == 1) << tensors;
    }
    EXPECT_EQ(end, window.elements);
  }
  EXPECT_EQ(update_units(graph, graph.windows[2]).size(), 5u);  // four matrices, and all vectors
}

TEST(UpdateUnits, BringTensorsOfOneRuleTogether) {
  for (const Optim optim : {Optim::adamw_torch, Optim::adamw_8bit}) {
    const ModelGraph graph = small_gpt(Precision::bf16, update_rules(optim));
    const Window& layer = graph.windows[2];
    EXPECT_EQ(update_units(graph, layer).size(), optim == Optim::adamw_8bit ? 2u : 1u);
    u64 end = 0;
    for (const Tensor& tensor : layer.tensors) {
      EXPECT_GE(tensor.window_offset, end) << tensor.name;
      end = tensor.window_offset + tensor.elements;
      EXPECT_EQ(&layer.tensor(tensor.number), &tensor);
      const bool codes = graph.rules[tensor.rule].optim == Optim::adamw_8bit;
      EXPECT_EQ(codes, optim == Optim::adamw_8bit && tensor.shape.size() > 1) << tensor.name;
      if (codes) EXPECT_EQ(tensor.window_offset % slot_block_elements, 0u) << tensor.name;
    }
    EXPECT_EQ(layer.tensor(0).name, "h.0.ln_1.weight");  // as the layer's code knows it
  }
}

// q, k and v are one array: k of one head has fewer elements than a rule with codes takes.
TEST(UpdateUnits, FusedTensorsTakeARuleThatIsForAllOfThem) {
  ModelConfig config = default_model(Family::qwen3);
  config.vocab_size = 97, config.positions = 32, config.width = 64, config.layers = 1;
  config.attention.heads = 4, config.attention.kv_heads_given = 2, config.softmax.head_size_given = 16;
  config.mlp.inner_given = 96;
  const ModelGraph graph = build_model(config, Precision::bf16, {.sequences = 1, .tokens = 32},
                                       Precision::fp32, {}, 0, update_rules(Optim::adamw_8bit))
                               .value();
  const auto rule_of = [&](std::string_view part) {
    for (const Window& window : graph.windows)
      for (const Tensor& tensor : window.tensors)
        if (tensor.name.find(part) != std::string::npos) return graph.rules[tensor.rule].optim;
    return Optim::sgd;
  };
  EXPECT_EQ(rule_of("q_proj"), Optim::adamw_torch);  // 4,096 elements, but k has 2,048
  EXPECT_EQ(rule_of("k_proj"), Optim::adamw_torch);
  EXPECT_EQ(rule_of("gate_proj"), Optim::adamw_8bit);
  EXPECT_EQ(rule_of("o_proj"), Optim::adamw_8bit);
}

TEST(UpdateUnits, GiveCutsTheStateOfTheirRule) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  const Layout layout = make_layout(graph, {.target_elements = 2048});
  for (u32 w = 0; w < layout.windows.size(); ++w)
    for (u32 cut = 0; cut < layout.windows[w].cuts; ++cut) {
      const Chunk& param = layout.chunk(offset_id(layout.windows[w].param, cut));
      // Parameter, remainder, and one momentum or AdamW's two moments.
      EXPECT_EQ(layout.state(w, cut).size(), param.rule == 2 ? 4u : 3u);
    }
  const WindowChunks& layer = layout.windows[2];
  for (const WindowChunks::UnitCuts& unit : layer.units) {
    const Chunk& first = layout.chunk(offset_id(layer.param, unit.first_cut));
    EXPECT_TRUE(first.rule != 0 || unit.cuts == 1) << unit.cuts;  // a matrix is not cut
  }
}

TEST(UpdateUnits, DoNotKeepFrozenWindowsWhole) {
  ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  for (Window& window : graph.windows) window.trainable = false;
  EXPECT_GT(make_layout(graph, {.target_elements = 2048}).windows[2].cuts, 6u);
}

TEST(UpdateUnits, AreCheckedBeforeAPlanRuns) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  const Plan plan = make_plan(graph, {.budgets = {roomy, roomy, roomy}}).value();
  EXPECT_EQ(wrong_with_units(plan, graph), "");
  u32 matrix = 0;
  while (plan.chunks[matrix].kind != Kind::param || plan.chunks[matrix].rule != 0) ++matrix;
  Plan other = plan;
  other.chunks[matrix].rule = 1;
  EXPECT_THAT(wrong_with_units(other, graph), HasSubstr("of rule 1, and h.0."));
  other = plan;
  other.chunks[matrix].elements /= 2;
  other.chunks[matrix].bytes = Bytes{other.chunks[matrix].bytes.value / 2};
  EXPECT_THAT(wrong_with_units(other, graph), HasSubstr("divides h.0."));
  other = plan;
  for (Chunk& chunk : other.chunks)
    if (is_slot(chunk.kind)) chunk.bytes = Bytes{0};
  EXPECT_THAT(wrong_with_units(other, graph), HasSubstr("has 0 bytes of"));
}

// RETURNS: the ops of a segment that update a cut, in order.
std::vector<u32> updates_of(const Segment& segment, u32 window, u32 cut) {
  std::vector<u32> out;
  for (u32 i = 0; i < segment.ops.size(); ++i)
    if (is_update(segment.ops[i].kind) && segment.ops[i].window == window && segment.ops[i].cut == cut)
      out.push_back(i);
  return out;
}

TEST(StreamedUpdates, AreThreeOpsOfWhichTheSecondIsOnTheDevice) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  for (const bool clipping : {true, false}) {
    const Plan plan =
        make_plan(graph, {.budgets = {roomy, roomy, roomy}, .clipping = clipping, .home = HomePolicy::host})
            .value();
    const Segment& body = plan.segment(SegmentKind::body);
    const std::vector<u32> parts = updates_of(body, 2, 0);  // a matrix of the first layer
    ASSERT_EQ(parts.size(), 3u);
    EXPECT_EQ(body.ops[parts[0]].kind, OpKind::direction);
    EXPECT_EQ(body.ops[parts[0]].lane.kind, LaneKind::host);
    EXPECT_EQ(body.ops[parts[1]].kind, OpKind::orthogonalize);
    EXPECT_EQ(body.ops[parts[1]].lane.kind, LaneKind::compute);
    EXPECT_EQ(body.ops[parts[2]].kind, OpKind::update);
    EXPECT_EQ(body.ops[parts[2]].lane.kind, LaneKind::host);
    // The gradient comes down, its direction goes up and comes down; parameters go up.
    u64 up = 0, down = 0;
    for (const Op& op : body.ops) {
      if (op.kind != OpKind::copy || op.window != 2 || op.cut != 0) continue;
      const Kind kind = plan.chunk(body.operands_of(op)[0].first).kind;
      if (kind == Kind::grad) (op.lane.kind == LaneKind::h2d ? up : down) += 1;
    }
    EXPECT_EQ(up, 1u);
    EXPECT_EQ(down, 2u);
  }
}

TEST(StreamedUpdates, AreCheckedBeforeAPlanRuns) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  const Plan plan = make_plan(graph, {.budgets = {roomy, roomy, roomy}}).value();
  const auto changed = [&](auto&& change) {
    Plan other = plan;
    Segment& body = other.segments[static_cast<u32>(SegmentKind::body)];
    change(body, updates_of(body, 2, 0));
    return wrong_with_units(other, graph);
  };
  EXPECT_EQ(changed([](Segment&, const auto&) {}), "");
  EXPECT_THAT(changed([](Segment& body, const auto& parts) { body.ops[parts[1]].kind = OpKind::update; }),
              HasSubstr("is not the next part of its update"));
  EXPECT_THAT(changed([](Segment& body, const auto& parts) { body.ops[parts[2]].kind = OpKind::norm; }),
              HasSubstr("lacks a part"));
  EXPECT_THAT(changed([](Segment& body, const auto& parts) {
                body.operands[body.ops[parts[2]].operands_begin].version = 0;
              }),
              HasSubstr("does not find what the part before has made"));
  EXPECT_THAT(changed([](Segment& body, const auto& parts) {
                body.operands[body.ops[parts[0]].operands_begin].access = Access::read;
              }),
              HasSubstr("does not use the gradient as its part does"));
}

TEST(StreamedUpdates, AreDealtToDevicesAndNodesByWork) {
  const ModelGraph graph = small_gpt(Precision::bf16, several_rules());
  const auto work = [&](const Chunk& cut) {
    u64 products = 0;
    for (const MatrixPlace& m : graph.rules[cut.rule].place == UpdatePlace::streamed
                                    ? matrices_between(graph.windows[cut.window], cut.element_begin,
                                                       cut.element_begin + cut.elements)
                                    : std::vector<MatrixPlace>()) {
      const u64 inner = std::min(m.rows, m.columns);
      products += inner * m.elements();
    }
    return products;
  };
  const Layout layout = make_layout(graph, {.target_elements = 2048, .devices = 2});
  const WindowChunks& layer = layout.windows[2];
  std::vector<u64> of_device(2), of_node(3);
  for (u32 cut = 0; cut < layer.cuts; ++cut)
    of_device[layer.owner(cut)] += work(layout.chunk(offset_id(layer.param, cut)));
  EXPECT_LE(std::max(of_device[0], of_device[1]),
            2 * std::min(of_device[0], of_device[1]));  // whole matrices
  const Layout of_nodes = make_layout(graph, {.target_elements = 2048, .nodes = 3});
  for (const WindowChunks& window : of_nodes.windows)
    for (u32 cut = 0; cut < window.cuts; ++cut) {
      const Chunk& chunk = of_nodes.chunk(offset_id(window.param, cut));
      of_node[chunk.owner] += work(chunk);
    }
  EXPECT_LT(*std::ranges::max_element(of_node), 2 * *std::ranges::min_element(of_node));
}

}  // namespace tidepool::units_test
