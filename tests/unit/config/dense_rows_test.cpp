// Dense families that differ from Llama in one part: their keys in config.json, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/directory/hf_config.h"

namespace tidepool::dense_rows_test {

using ::testing::HasSubstr;

Result<ModelConfig> parse(std::string_view family, std::string_view more) {
  return parse_hf_config(
      fmt::format(R"({{"model_type": "{}", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
                       "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2{}}})",
                  family, more),
      ErrorKind::bad_input, "config.json");
}
ModelConfig model(std::string_view family, std::string_view more = "") {
  const auto read = parse(family, more);
  EXPECT_TRUE(read) << read.error().message;
  return read ? *read : ModelConfig();
}
std::string fault(std::string_view family, std::string_view more) {
  const auto read = parse(family, more);
  return read ? "no error" : read.error().message;
}

TEST(Ministral3, GrowsQueriesAndMustSayHow) {
  const ModelConfig c =
      model("ministral3", R"(, "rope_parameters": {"type": "yarn", "rope_theta": 1e6, "factor": 16,
      "original_max_position_embeddings": 16384, "max_position_embeddings": 262144, "mscale": 1, "mscale_all_dim": 1,
      "llama_4_scaling_beta": 0.2})");
  EXPECT_EQ(c.attention.rope.query_growth, 0.2);
  EXPECT_EQ(c.attention.rope.rotary_factor(), 1);
  EXPECT_EQ(c.head_size(), 128u);
  EXPECT_THAT(fault("ministral3", ""), HasSubstr("rope_parameters: is missing"));
  EXPECT_THAT(fault("llama", R"(, "rope_parameters": {"rope_type": "default", "llama_4_scaling_beta": 0.1})"),
              HasSubstr("llama_4_scaling_beta"));
}

TEST(SmolLm3, ReadsLayersWithoutRotation) {
  const auto rotated = [](const ModelConfig& c) {
    std::vector<bool> out;
    for (u32 layer = 0; layer < c.layers; ++layer) out.push_back(c.rotates(layer));
    return out;
  };
  using Layers = std::vector<bool>;
  EXPECT_EQ(rotated(model("smollm3")), Layers({true, true, true, false}));
  EXPECT_EQ(rotated(model("smollm3", R"(, "no_rope_layer_interval": 2)")),
            Layers({true, false, true, false}));
  EXPECT_EQ(rotated(model("smollm3", R"(, "no_rope_layers": [1, 1, 0, 1])")),
            Layers({true, true, false, true}));
  EXPECT_EQ(rotated(model("smollm3", R"(, "no_rope_layers": [1, 1, 1, 1])")), Layers(4, true));
  EXPECT_THAT(fault("smollm3", R"(, "no_rope_layers": [1, 0, 1, 1])"), HasSubstr("has 1 for layer 3"));
  EXPECT_THAT(fault("smollm3", R"(, "no_rope_layers": [1, 0])"), HasSubstr("one item a layer"));
  EXPECT_THAT(fault("smollm3", R"(, "use_sliding_window": true)"), HasSubstr("use_sliding_window"));
}

TEST(Exaone4, RotatesOnlyLayersWithAWindowIfSomeHaveOne) {
  const ModelConfig c = model("exaone4", R"(, "sliding_window_pattern": "LG",
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])");
  EXPECT_TRUE(c.rotates(0));
  EXPECT_FALSE(c.rotates(1));
  const ModelConfig full = model("exaone4", R"(, "sliding_window": null, "sliding_window_pattern": 0,
      "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])");
  EXPECT_TRUE(full.rotates(3));
  EXPECT_EQ(full.window_of_any_layer(), 0u);
  EXPECT_THAT(fault("exaone4", R"(, "sliding_window_pattern": "LG")"), HasSubstr("sliding_window_pattern"));
}

TEST(Olmo3, HasAnglesOfItsOwnInLayersWithAWindow) {
  const ModelConfig c = model("olmo3");
  EXPECT_EQ(c.qk_norm(), QkNormKind::whole);
  EXPECT_EQ(c.rope(0).theta, 5e5);
  EXPECT_EQ(c.attention_window(3), 0u);
}

// transformers computes no masks for these families without a window, even if no layer has one.
TEST(LayersThatDiffer, NeedAWindow) {
  for (const std::string_view family : {"olmo3", "gemma2", "gemma3_text"}) {
    EXPECT_THAT(fault(family, R"(, "sliding_window": null)"),
                HasSubstr("sliding_window: null is refused by transformers"));
    EXPECT_THAT(fault(family, R"(, "sliding_window": null, "layer_types": ["full_attention", "full_attention",
              "full_attention", "full_attention"])"),
                HasSubstr("max_position_embeddings stands for none"));
    EXPECT_EQ(fault(family, R"(, "sliding_window": 2048)"), "no error");
  }
}

TEST(SeedOss, HasDropoutsAndBiasesUnlessGiven) {
  const ModelConfig c = model("seed_oss");
  EXPECT_EQ(c.attention.dropout, 0.1);
  EXPECT_EQ(c.residual_dropout, 0.1);
  EXPECT_EQ(c.embedding_dropout, 0);
  EXPECT_TRUE(c.qkv_bias());
  EXPECT_FALSE(c.output_bias());
  EXPECT_TRUE(model("seed_oss", R"(, "attention_out_bias": true)").output_bias());
}

TEST(HunYuan, ReadsAlpha) {
  const ModelConfig c =
      model("hunyuan_v1_dense", R"(, "use_qk_norm": true, "rope_scaling": {"type": "dynamic",
      "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0})");
  EXPECT_EQ(c.attention.rope.alpha, 1000);
  EXPECT_EQ(c.longest_sequence(), c.positions);
  EXPECT_THAT(fault("hunyuan_v1_dense", R"(, "use_qk_norm": false)"), HasSubstr("use_qk_norm"));
  EXPECT_THAT(
      fault("hunyuan_v1_dense", R"(, "rope_scaling": {"type": "linear", "factor": 2.0, "alpha": 3.0})"),
      HasSubstr("alpha: 3 has no effect with rope_type linear"));
}

TEST(Ernie, HasNoBiases) {
  EXPECT_TRUE(model("ernie4_5", R"(, "use_bias": false)").tied);
  EXPECT_THAT(fault("ernie4_5", R"(, "use_bias": true)"), HasSubstr("use_bias"));
}

TEST(Granite, HasFactors) {
  const ModelConfig plain = model("granite");
  EXPECT_EQ(plain.attention_scale(), 1);
  const ModelConfig c = model("granite", R"(, "embedding_multiplier": 12, "residual_multiplier": 0.22,
      "attention_multiplier": 0.015625, "logits_scaling": 8)");
  EXPECT_EQ(c.factors, (Factors{.embedding = 12, .residual = 0.22, .logits_divisor = 8}));
  EXPECT_EQ(c.attention_scale(), 0.015625);
  EXPECT_EQ(c.logits_factor(), 0.125);
  EXPECT_THAT(fault("granite", R"(, "logits_scaling": 0)"), HasSubstr("logits_scaling"));
}

TEST(Arcee, HasAnMlpWithoutAGate) {
  const ModelConfig c = model("arcee", R"(, "hidden_act": "relu2", "mlp_bias": true)");
  EXPECT_EQ(c.mlp_kind(0), MlpKind::squared_relu);
  EXPECT_TRUE(c.mlp.bias);
  EXPECT_EQ(c.norm_epsilon, 1e-5);
  EXPECT_EQ(default_model(Family::arcee).inner(), 4 * default_model(Family::arcee).width);
  EXPECT_THAT(fault("arcee", R"(, "hidden_act": "silu")"), HasSubstr("hidden_act: relu2"));
  EXPECT_THAT(fault("llama", R"(, "hidden_act": "relu2")"), HasSubstr("hidden_act: silu"));
}

TEST(Gemma2, HasSoftCaps) {
  const ModelConfig c = model("gemma2");
  EXPECT_EQ(c.softmax.soft_cap, 50);
  EXPECT_EQ(c.logits_cap(), 30);
  EXPECT_EQ(c.attention_scale_size(), 256u);
  EXPECT_EQ(c.head_size(), 256u);
  EXPECT_TRUE(c.tied);
  EXPECT_EQ(c.attention_window(0), 4096u);
  EXPECT_EQ(c.attention_window(1), 0u);
  const ModelConfig none =
      model("gemma2", R"(, "attn_logit_softcapping": null, "final_logit_softcapping": null,
      "query_pre_attn_scalar": 144)");
  EXPECT_EQ(none.softmax.soft_cap, 0);
  EXPECT_EQ(none.logits_cap(), 0);
  EXPECT_EQ(none.attention_scale(), 1.0 / 12);
  ModelConfig classifier = c;
  classifier.score.labels = 2;
  EXPECT_EQ(classifier.logits_cap(), 0);
  for (const ModelConfig& one : {c, none})
    EXPECT_EQ(
        parse_hf_config(hf_config_text(one, Precision::bf16), ErrorKind::bad_input, "config.json").value(),
        one);
}

TEST(Gemma2, RefusesWhatIsNotComputed) {
  EXPECT_THAT(fault("gemma2", R"(, "attn_logit_softcapping": 0)"), HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(fault("gemma2", R"(, "final_logit_softcapping": -1.0)"), HasSubstr("final_logit_softcapping"));
  EXPECT_THAT(fault("gemma2", R"(, "final_logit_softcapping": "30")"), HasSubstr("final_logit_softcapping"));
  EXPECT_THAT(fault("gemma2", R"(, "use_bidirectional_attention": true)"),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(fault("gemma2", R"(, "hidden_activation": "gelu")"), HasSubstr("hidden_activation"));
  EXPECT_THAT(fault("gemma3_text", R"(, "final_logit_softcapping": 30.0)"), HasSubstr("soft caps"));
}

}  // namespace tidepool::dense_rows_test
