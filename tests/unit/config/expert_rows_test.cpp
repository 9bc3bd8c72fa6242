// GLM-4-MoE and MiniMax-M2: their keys in config.json, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/foreign_keys.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool::expert_rows_test {

using ::testing::HasSubstr;

Result<ModelConfig> parse(std::string_view family, std::string_view more) {
  return parse_hf_config(
      fmt::format(R"({{"model_type": "{}", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
                       "num_hidden_layers": 4, "num_attention_heads": 4, "num_experts_per_tok": 2{}}})",
                  family, more),
      ErrorKind::bad_input, "config.json");
}
constexpr std::string_view glm_sizes =
    R"(, "num_key_value_heads": 4, "n_routed_experts": 8, "moe_intermediate_size": 24, "n_shared_experts": 1,
    "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.5)";
constexpr std::string_view latent_sizes =
    R"(, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 8)";

Result<ModelConfig> glm(std::string_view more) {
  return parse("glm4_moe", fmt::format(R"({}, "first_k_dense_replace": 1{})", glm_sizes, more));
}
Result<ModelConfig> lite(std::string_view more) {
  return parse("glm4_moe_lite", fmt::format("{}{}{}", glm_sizes, latent_sizes, more));
}
Result<ModelConfig> minimax(std::string_view more) {
  return parse("minimax_m2",
               fmt::format(R"(, "num_key_value_heads": 2, "num_local_experts": 6, "head_dim": 16{})", more));
}
std::string fault(const Result<ModelConfig>& model) { return model ? "no error" : model.error().message; }

TEST(Glm4Moe, HasNoNormsOfHeadsUnlessGivenAndNoBiasOfOutputs) {
  const ModelConfig plain = glm("").value();
  EXPECT_EQ(plain.qk_norm(), QkNormKind::none);
  EXPECT_EQ(plain.rotary_size(), 8u);
  EXPECT_EQ(plain.norm_epsilon, 1e-5);
  const ModelConfig c = glm(R"(, "use_qk_norm": true, "attention_bias": true)").value();
  EXPECT_EQ(c.qk_norm(), QkNormKind::heads);
  EXPECT_TRUE(c.qkv_bias());
  EXPECT_FALSE(c.output_bias());
  EXPECT_TRUE(glm(R"(, "num_nextn_predict_layers": 1, "output_router_logits": true)"));
}

TEST(Glm4MoeLite, ReadsWhichLayersAreDenseFromAList) {
  EXPECT_EQ(lite("").value().experts.dense_layers, 1u);
  const auto listed = [](std::string_view list, std::string_view more = "") {
    return lite(fmt::format(R"(, "mlp_layer_types": {}{})", list, more));
  };
  EXPECT_EQ(listed(R"(["dense", "dense", "sparse", "sparse"])").value().experts.dense_layers, 2u);
  EXPECT_EQ(listed(R"(["sparse", "sparse", "sparse", "sparse"])").value().experts.dense_layers, 0u);
  EXPECT_THAT(fault(listed(R"(["sparse", "dense", "sparse", "sparse"])")),
              HasSubstr("mlp_layer_types: names \"dense\" for layer 1"));
  EXPECT_THAT(fault(listed(R"(["dense", "sparse"])")), HasSubstr("must be a list, with one item a layer"));
  EXPECT_THAT(fault(listed("7")), HasSubstr("must be a list"));
  EXPECT_THAT(fault(listed(R"(["dense", "sparse", "sparse", "sparse"], "first_k_dense_replace": 2)")),
              HasSubstr("first_k_dense_replace: is 2, but mlp_layer_types makes 1 layers dense"));
}

TEST(MiniMaxM2, ReadsAWidthOfRotatedColumns) {
  EXPECT_EQ(minimax("").value().rotary_size(), 16u);
  EXPECT_EQ(minimax(R"(, "rotary_dim": 8)").value().rotary_size(), 8u);
  EXPECT_EQ(minimax(R"(, "rotary_dim": 8, "partial_rotary_factor": 0.25)").value().rotary_size(), 4u);
  EXPECT_THAT(fault(minimax(R"(, "rotary_dim": "8")")), HasSubstr("rotary_dim: must be a number of columns"));
  EXPECT_THAT(fault(minimax(R"(, "rotary_dim": 20)")), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(fault(minimax(R"(, "rotary_dim": 20)")), HasSubstr("the number of columns of a head"));
  EXPECT_THAT(fault(minimax(R"(, "rotary_dim": 7)")), HasSubstr("rotary_dim: 7 must be an even number"));
}

TEST(MiniMaxM2, HasNormsOverAllHeadsAndASigmoidRouter) {
  const ModelConfig c = minimax("").value();
  EXPECT_EQ(c.qk_norm(), QkNormKind::whole);
  EXPECT_TRUE(c.experts.normalise);
  EXPECT_EQ(c.attention.rope.theta, 5e6);
  for (const auto& [key, value] :
       {std::pair{"scoring_func", "\"softmax\""}, std::pair{"use_qk_norm", "false"},
        std::pair{"use_routing_bias", "false"}, std::pair{"qk_norm_type", "\"per_head\""},
        std::pair{"output_router_logits", "true"}, std::pair{"shared_intermediate_size", "64"},
        std::pair{"attn_type_list", "[1, 0, 1, 1]"}, std::pair{"attention_bias", "true"}})
    EXPECT_THAT(fault(minimax(fmt::format(R"(, "{}": {})", key, value))), HasSubstr(key));
}

}  // namespace tidepool::expert_rows_test
