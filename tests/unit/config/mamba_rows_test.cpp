// Nemotron-H and Granite 4: their keys in config.json, kinds of layers, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/directory/hf_config.h"

namespace tidepool::mamba_rows_test {

using ::testing::HasSubstr;

Result<ModelConfig> nemotron(std::string_view more) {
  return parse_hf_config(fmt::format(
                             R"({{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64,
                       "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
                       "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 12, "ssm_state_size": 16,
                       "n_groups": 2, "num_experts_per_tok": 2, "n_routed_experts": 8,
                       "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 40{}}})",
                             more),
                         ErrorKind::bad_input, "config.json");
}
Result<ModelConfig> granite(std::string_view more) {
  return parse_hf_config(
      fmt::format(R"({{"model_type": "granitemoehybrid", "vocab_size": 64, "hidden_size": 64,
                       "intermediate_size": 24, "shared_intermediate_size": 40, "num_hidden_layers": 3,
                       "num_attention_heads": 4, "mamba_n_heads": 8{}}})",
                  more),
      ErrorKind::bad_input, "config.json");
}
std::string fault(const Result<ModelConfig>& model) { return model ? "no error" : model.error().message; }

TEST(NemotronH, ReadsKindsOfLayersAsLettersOrAsAList) {
  const ModelConfig c = nemotron(R"(, "hybrid_override_pattern": "M-*E", "num_hidden_layers": 4)").value();
  EXPECT_EQ(c.layer_kinds, "M-*E");
  const ModelConfig listed =
      nemotron(R"(, "layers_block_type": ["mamba", "mlp", "attention", "moe"])").value();
  EXPECT_EQ(listed.layer_kinds, "M-*E");
  EXPECT_EQ(listed.layers, 4u);
  EXPECT_EQ(c.mixer_kind(0), MixerKind::mamba);
  EXPECT_EQ(c.mlp_kind(0), MlpKind::none);
  EXPECT_EQ(c.mixer_kind(1), MixerKind::none);
  EXPECT_EQ(c.mlp_kind(1), MlpKind::squared_relu);
  EXPECT_EQ(c.mixer_kind(2), MixerKind::softmax);
  EXPECT_FALSE(c.rotates(2));
  EXPECT_TRUE(c.has_experts(3));
}

TEST(NemotronH, IsDenseIfNoLayerHasExperts) {
  const ModelConfig c = nemotron(R"(, "hybrid_override_pattern": "M-M*-")").value();
  EXPECT_EQ(c.layers, 5u);
  EXPECT_EQ(c.experts.count, 0u);
}

TEST(NemotronH, ReadsEarlierNamesOfKeys) {
  const ModelConfig c = nemotron(R"(, "mamba_dt_min": 0.25, "mamba_d_conv": 3, "mamba_n_groups": 2)").value();
  EXPECT_EQ(c.mamba.least_step, 0.25);
  EXPECT_EQ(c.mamba.taps, 3u);
  EXPECT_EQ(c.mamba.groups, 2u);
}

TEST(NemotronH, RefusesByName) {
  EXPECT_THAT(fault(nemotron(R"(, "hybrid_override_pattern": "MX")")), HasSubstr("has 'X' for layer 1"));
  EXPECT_THAT(fault(nemotron(R"(, "hybrid_override_pattern": "M*-", "num_hidden_layers": 4)")),
              HasSubstr("'M*-' has length 3, and num_hidden_layers is 4"));
  EXPECT_THAT(fault(nemotron(R"(, "layers_block_type": ["mamba", "mlp"], "num_hidden_layers": 3)")),
              HasSubstr("layers_block_type: has 2 items, and num_hidden_layers is 3"));
  EXPECT_THAT(fault(nemotron(R"(, "time_step_min": 0.1, "mamba_dt_min": 0.2)")),
              HasSubstr("mamba_dt_min: is 0.2, but time_step_min beside it is 0.1"));
  EXPECT_THAT(fault(nemotron(R"(, "layers_block_type": ["mamba", "conv"])")),
              HasSubstr("layers_block_type: \"conv\" is not supported"));
  EXPECT_THAT(fault(nemotron(R"(, "moe_latent_size": 32)")), HasSubstr("moe_latent_size"));
  EXPECT_THAT(fault(nemotron(R"(, "mlp_hidden_act": "silu")")), HasSubstr("mlp_hidden_act: relu2"));
  EXPECT_THAT(fault(nemotron(R"(, "mlp_bias": true)")), HasSubstr("mlp_bias"));
  EXPECT_THAT(fault(nemotron(R"(, "n_groups": 3)")),
              HasSubstr("mamba_num_heads: 8 is no multiple of n_groups 3"));
}

TEST(GraniteHybrid, ReadsPositionsStepsAndSizesOfHeads) {
  const ModelConfig c =
      granite(R"(, "layer_types": ["mamba", "attention", "mamba"], "position_embedding_type": "nope",
                  "time_step_limit": [0.0, {"__float__": "Infinity"}])")
          .value();
  EXPECT_EQ(c.layer_kinds, "M*M");
  EXPECT_FALSE(c.rotates(1));
  EXPECT_TRUE(c.mamba.step_limits.empty());
  EXPECT_EQ(c.mamba.head_dim, 16u);  // twice the width of the residual stream, in 8 heads
  EXPECT_EQ(c.mlp_kind(0), MlpKind::experts);
  EXPECT_EQ(c.expert_inner(), 24u);
  EXPECT_EQ(c.shared_inner(), 40u);
  const ModelConfig bounded =
      granite(R"(, "position_embedding_type": "rope", "time_step_limit": [0.01, 4.0])").value();
  EXPECT_TRUE(bounded.rotates(1));
  EXPECT_EQ(bounded.mamba.step_limits, (std::vector<double>{0.01, 4.0}));
}

TEST(GraniteHybrid, HasADenseMlpWithoutExperts) {
  const ModelConfig c = granite(R"(, "num_local_experts": 0)").value();
  EXPECT_EQ(c.mlp_kind(0), MlpKind::glu);
  EXPECT_EQ(c.dense_inner(), 40u);
}

TEST(GraniteHybrid, RefusesByName) {
  EXPECT_THAT(fault(granite(R"(, "mamba_d_head": 24)")), HasSubstr("mamba_expand"));
  EXPECT_THAT(fault(granite(R"(, "position_embedding_type": "alibi")")),
              HasSubstr("position_embedding_type"));
  EXPECT_THAT(fault(granite(R"(, "layer_types": ["mamba", "moe", "mamba"])")),
              HasSubstr("has 'E' for layer 1"));
  EXPECT_THAT(fault(granite(R"(, "time_step_limit": [1.0])")), HasSubstr("time_step_limit"));
}

TEST(MambaConfigs, AreWrittenAsTheyAreRead) {
  for (const ModelConfig& c :
       {nemotron(R"(, "hybrid_override_pattern": "M-*E", "use_bias": true, "time_step_min": 0.02)").value(),
        nemotron(R"(, "hybrid_override_pattern": "M-*")").value(),
        granite(R"(, "time_step_limit": [0.01, 4.0], "mamba_proj_bias": true)").value(),
        granite(R"(, "num_local_experts": 0, "position_embedding_type": "rope")").value()}) {
    const std::string text = hf_config_text(c, Precision::bf16);
    const Result<ModelConfig> again = parse_hf_config(text, ErrorKind::bad_input, "config.json");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(hf_config_text(*again, Precision::bf16), text);
    EXPECT_EQ(again->mamba, c.mamba);
    EXPECT_EQ(again->softmax.positions, c.softmax.positions);
  }
}

}  // namespace tidepool::mamba_rows_test
