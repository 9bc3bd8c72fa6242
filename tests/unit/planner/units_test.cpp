// Rules per group of tensors: units of updates, their cuts and their state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chunk_manager/layout.h"
#include "planner/planner.h"
#include "planner/verify/verify_units.h"
#include "tests/support/small_training.h"
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

}  // namespace tidepool::units_test
