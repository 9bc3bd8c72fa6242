// The list of a layer's tensors, from which windows, linear layers and products follow.
#include "model/layer_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/attention.h"
#include "model/blocks.h"

namespace tidepool::test::layer_tensors_test {

using testing::Contains;
using testing::ElementsAre;

ModelConfig small(Family family) {
  ModelConfig c = default_model(family);
  c.vocab_size = 64, c.positions = 32, c.width = 32, c.layers = 3, c.attention.heads = 4;
  c.mlp.inner_given = 48;
  return c;
}

std::vector<std::string> modules_of(const LayerTensors& tensors) {
  std::vector<std::string> out;
  const LinearModules modules = tensors.modules();
  for (u32 m = 0; m < modules.count; ++m)
    out.push_back(modules.of[m].router ? "router" : std::string(modules.of[m].path));
  return out;
}

TEST(LayerTensors, AreTheTensorsOfTheWindow) {
  for (u32 f = 0; f < family_count; ++f) {
    const ModelConfig c = small(static_cast<Family>(f));
    for (u32 layer = 0; layer < c.layers; ++layer) {
      const LayerTensors tensors(c, layer);
      const Window window = layer_window({.config = c}, layer);
      ASSERT_EQ(window.tensors.size(), tensors.count()) << name(c.family);
      for (u32 i = 0; i < tensors.count(); ++i) {
        EXPECT_TRUE(window.tensors[i].name.ends_with(tensors[i].suffix)) << window.tensors[i].name;
        EXPECT_EQ(window.tensors[i].elements,
                  u64{tensors[i].rows} * std::max({tensors[i].columns, tensors[i].taps, 1u}));
      }
    }
  }
}

TEST(LayerTensors, GiveLinearLayersInTheOrderOfProducts) {
  EXPECT_THAT(modules_of({small(Family::gpt2), 0}),
              ElementsAre("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"));
  EXPECT_THAT(modules_of({small(Family::phi3), 0}),
              ElementsAre("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"));
  EXPECT_THAT(
      modules_of({small(Family::mixtral), 0}),
      ElementsAre("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "router"));
}

// Adapters' dropout is numbered by linear layer, so the router must not come before the shared experts.
TEST(LayerTensors, HaveTheRouterAsTheLastLinearLayer) {
  const ModelConfig c = small(Family::deepseek_v3);
  const LayerTensors routed(c, 1);
  EXPECT_THAT(modules_of(routed),
              ElementsAre("self_attn.q_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj",
                          "self_attn.o_proj", "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj",
                          "mlp.shared_experts.down_proj", "router"));
  for (u32 i = 0; i < routed.count(); ++i) {
    if (routed[i].router && routed[i].is_matrix()) {
      EXPECT_EQ(routed.module(i), 7u);
    }
  }
}

TEST(LayerTensors, OfAGatedDeltaRuleAreLinearLayersButForTheConvolution) {
  EXPECT_THAT(modules_of({small(Family::qwen3_5_moe_text), 0}),
              ElementsAre("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_b",
                          "linear_attn.in_proj_a", "linear_attn.out_proj", "mlp.shared_expert.gate_proj",
                          "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj",
                          "mlp.shared_expert_gate", "router"));
  EXPECT_THAT(modules_of({small(Family::qwen3_next), 0}), Contains("linear_attn.in_proj_qkvz"));
}

TEST(LayerTensors, OfALayerOfOnePartHaveOneNorm) {
  const ModelConfig c = small(Family::nemotron_h);
  const auto first = [&](u32 layer) { return layer_window({.config = c}, layer).tensors.front().name; };
  for (const u32 layer : {0u, 1u, 2u, 3u})
    EXPECT_EQ(first(layer), fmt::format("backbone.layers.{}.norm.weight", layer));
  EXPECT_THAT(modules_of({c, 0}), ElementsAre("mixer.in_proj"));  // PEFT refuses out_proj
  EXPECT_THAT(modules_of({small(Family::granitemoehybrid), 0}), Contains("mamba.out_proj"));
  EXPECT_THAT(modules_of({c, 1}),
              ElementsAre("mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj", "router"));
  EXPECT_THAT(modules_of({c, 2}),
              ElementsAre("mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.o_proj"));
  EXPECT_THAT(modules_of({c, 3}), ElementsAre("mixer.up_proj", "mixer.down_proj"));
}

TEST(LayerTensors, FollowTheKindOfEachLayer) {
  const ModelConfig c = small(Family::deepseek_v3);  // its first layer has no experts
  ASSERT_EQ(c.mlp_kind(0), MlpKind::glu);
  ASSERT_EQ(c.mlp_kind(1), MlpKind::experts);
  EXPECT_EQ(layer_window({.config = c}, 0).tensors.back().name, "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(layer_window({.config = c}, 1).tensors.back().name,
            "model.layers.1.mlp.shared_experts.down_proj.weight");
}

TEST(AttentionToCome, IsThatOfAllLayersOrNone) {
  ModelConfig c = small(Family::gemma3_text);
  c.softmax.head_size_given = 8, c.attention.kv_heads_given = 2;
  const auto graph = [&](u32 tokens) {
    return build_model(c, Precision::bf16, {.sequences = 1, .tokens = tokens}, Precision::bf16).value();
  };
  c.softmax.sliding_window = 16, c.softmax.sliding_window_pattern = 2;
  EXPECT_EQ(why_own_attention(graph(32)), "sequences are longer than the model's sliding window");
  EXPECT_FALSE(attention_to_come(graph(32)));
  ASSERT_TRUE(attention_to_come(graph(16)));
  EXPECT_EQ(attention_to_come(graph(16))->shape, *attention_shape(graph(16), 2));
  c.softmax.soft_cap = 50;
  EXPECT_EQ(why_own_attention(graph(16)), "attention scores have a soft cap");
  EXPECT_FALSE(attention_to_come(graph(16)));
}

}  // namespace tidepool::test::layer_tensors_test
