// Gemma 4's config.json: heads of the two kinds of layers in both spellings, angles, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/directory/config_difference.h"
#include "tests/support/hf_config.h"

namespace tidepool::gemma4_rows_test {

using ::testing::HasSubstr;

std::string config_json(std::string_view more) {
  return fmt::format(
      R"({{"model_type": "gemma4_text", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
           "num_hidden_layers": 7, "num_attention_heads": 8, "vocab_size_per_layer_input": 64{}}})",
      more);
}
ModelConfig parsed(std::string_view more) { return test::parsed_config(config_json(more)); }
std::string fault_of(std::string_view more) { return test::config_fault(config_json(more)); }

TEST(Gemma4Rows, MissingKeysHaveTheDefaultsOfTransformers) {
  const ModelConfig c = parsed("");
  EXPECT_EQ(c.head_size(0), 256u);
  EXPECT_EQ(c.head_size(5), 512u);
  EXPECT_EQ(c.head_size(6), 512u);  // the last layer sees all tokens
  EXPECT_EQ(c.kv_heads(5), 4u);
  EXPECT_EQ(c.layer_inputs.width, 256u);
  EXPECT_EQ(c.window_of_any_layer(), 512u);
  EXPECT_EQ(c.attention.rope, (Rope{.type = RopeType::proportional, .theta = 1e6, .partial_factor = 0.25}));
  EXPECT_EQ(c.softmax.local_rope_theta, 1e4);
  EXPECT_EQ(c.final_soft_cap, 0);
  EXPECT_TRUE(c.tied);
}

TEST(Gemma4Rows, BothSpellingsOfHeadsAreTheSameModel) {
  const ModelConfig old = parsed(R"(, "global_head_dim": 24, "head_dim": 16, "attention_k_eq_v": true,
                                     "num_global_key_value_heads": 2)");
  const ModelConfig now = parsed(R"(, "head_dim": 16, "attention_k_eq_v": true, "per_layer_config": {
      "5": {"head_dim": 24, "num_key_value_heads": 2}, "6": {"head_dim": 24, "num_key_value_heads": 2}})");
  EXPECT_EQ(old, now);
  EXPECT_EQ(now.kv_heads(5), 2u);
  EXPECT_EQ(parse_hf_config(hf_config_text(now, Precision::bf16), ErrorKind::bad_input, "c").value(), now);
}

TEST(Gemma4Rows, AnglesOfTypeDefaultTurnWholeHeads) {
  const ModelConfig c = parsed(R"(, "head_dim": 16, "global_head_dim": 24, "rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.25},
      "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})");
  EXPECT_EQ(c.attention.rope, (Rope{.theta = 5e5}));
  EXPECT_EQ(c.rotary_size(5), 24u);
  EXPECT_EQ(c.rotary_size(0), 16u);
  EXPECT_EQ(c.softmax.local_rope_theta, 2e4);
}

// Only layers that see all tokens have proportional angles; plain ones know no share.
TEST(Gemma4Rows, TheShareOfProportionalAnglesIsOfTheWiderHeads) {
  EXPECT_EQ(parsed(R"(, "head_dim": 4, "global_head_dim": 32)").rotary_size(5), 32u);
  EXPECT_THAT(fault_of(R"(, "head_dim": 16, "global_head_dim": 4)"), HasSubstr("turns no pair of them"));
  ModelConfig c = parsed(R"(, "head_dim": 8, "global_head_dim": 12)");
  c.attention.rope.type = RopeType::plain;
  EXPECT_EQ(c.rotary_size(5), 12u);
  EXPECT_EQ(c.rotary_size(0), 8u);
  EXPECT_FALSE(check_model(c));
  c.attention.rope.partial_factor = 0.5;
  EXPECT_THAT(check_model(c)->reason, HasSubstr("has no effect with rope_type default"));
}

TEST(Gemma4Rows, RefusesWhatIsNotComputed) {
  EXPECT_THAT(fault_of(R"(, "use_bidirectional_attention": "all")"),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_EQ(fault_of(R"(, "use_bidirectional_attention": "vision")"), "no error");
  EXPECT_THAT(fault_of(R"(, "per_layer_config": {"0": {"head_dim": 24}})"), HasSubstr("gives layer 0"));
  EXPECT_THAT(fault_of(R"(, "per_layer_config": {"7": {"head_dim": 24}})"), HasSubstr("one of the 7 layers"));
  EXPECT_THAT(fault_of(R"(, "per_layer_config": {"5": {"sliding_window": 24}})"),
              HasSubstr("head_dim and num_key_value_heads alone"));
  EXPECT_THAT(
      fault_of(R"(, "per_layer_config": {"5": {"num_key_value_heads": 2}, "6": {"num_key_value_heads": 2}})"),
      HasSubstr("only with attention_k_eq_v"));
  EXPECT_THAT(fault_of(R"(, "global_head_dim": 514)"), HasSubstr("at most 512"));
  EXPECT_THAT(fault_of(R"(, "num_kv_shared_layers": 2)"), HasSubstr("num_kv_shared_layers"));
  EXPECT_THAT(fault_of(R"(, "vocab_size_per_layer_input": 63)"), HasSubstr("vocab_size_per_layer_input"));
  EXPECT_THAT(fault_of(R"(, "rope_parameters": {"full_attention":
                          {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}})"),
              HasSubstr("is not computed for gemma4_text"));
}

TEST(Gemma4Rows, ExpertsAreSwitchedOn) {
  constexpr std::string_view sizes = R"(, "num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 24)";
  const auto with = [&](std::string_view more) { return fmt::format("{}{}", sizes, more); };
  const ModelConfig c = parsed(with(R"(, "enable_moe_block": true)"));
  EXPECT_EQ(c.experts.count, 8u);
  EXPECT_EQ(c.experts.chosen, 3u);
  EXPECT_EQ(c.expert_inner(), 24u);
  EXPECT_TRUE(c.has_branches(0) && c.experts.normalise && c.experts.joined_files);
  EXPECT_EQ(c.shared_inner(0), 96u);
  const ModelConfig again =
      parse_hf_config(hf_config_text(c, Precision::bf16), ErrorKind::bad_input, "c").value();
  EXPECT_EQ(again.experts, c.experts);
  EXPECT_EQ(config_difference(again, c), "");
  // As in transformers, sizes without the switch are those of no experts.
  for (const char* off : {"", R"(, "enable_moe_block": false)", R"(, "enable_moe_block": null)"})
    EXPECT_EQ(parsed(with(off)), parsed("")) << off;
  EXPECT_THAT(config_difference(parsed(""), c), HasSubstr("experts"));
}

TEST(Gemma4Rows, RefusesExpertsWithoutTheirSizes) {
  const auto fault = [](std::string_view count, std::string_view chosen, std::string_view inner) {
    return fault_of(fmt::format(
        R"(, "enable_moe_block": true, "num_experts": {}, "top_k_experts": {}, "moe_intermediate_size": {})",
        count, chosen, inner));
  };
  EXPECT_THAT(fault_of(R"(, "enable_moe_block": true)"),
              HasSubstr("num_experts: is missing, and a model with enable_moe_block needs it"));
  EXPECT_THAT(fault("0", "2", "24"), HasSubstr("num_experts: is 0, and a model with"));
  EXPECT_THAT(fault("8", "null", "24"), HasSubstr("top_k_experts: is null, and a model with"));
  EXPECT_THAT(fault("8", "2", "null"), HasSubstr("moe_intermediate_size: is null, and"));
  EXPECT_THAT(fault("8", "9", "24"), HasSubstr("top_k_experts: 9 is more than the 8 experts"));
  EXPECT_THAT(fault_of(R"(, "enable_moe_block": "true")"), HasSubstr("must be true or false"));
  ModelConfig c = parsed("");  // as a config may say it, without the switch
  c.experts.chosen = 2;
  EXPECT_THAT(check_model(c)->reason, HasSubstr("2 has no effect in a dense model"));
  c.experts.count = 8;
  EXPECT_EQ(check_model(c)->key, "moe_intermediate_size");
  c.experts.inner_given = 24;
  EXPECT_FALSE(check_model(c));
}

TEST(Gemma4Rows, OtherFamiliesRefuseProportionalAngles) {
  const auto llama = parse_hf_config(
      R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 2, "num_attention_heads": 4,
          "rope_parameters": {"rope_type": "proportional", "rope_theta": 1e4}})",
      ErrorKind::bad_input, "config.json");
  ASSERT_FALSE(llama);
  EXPECT_THAT(llama.error().message, HasSubstr("proportional is not computed for llama models"));
}

TEST(Gemma4Rows, AnotherModelIsNamed) {
  const ModelConfig here = parsed("");
  EXPECT_THAT(config_difference(parsed(R"(, "attention_k_eq_v": true)"), here),
              HasSubstr("attention_k_eq_v"));
  EXPECT_THAT(config_difference(parsed(R"(, "global_head_dim": 256)"), here), HasSubstr("global_head_dim"));
  EXPECT_THAT(config_difference(parsed(R"(, "hidden_size_per_layer_input": 0)"), here),
              HasSubstr("hidden_size_per_layer_input"));
}

}  // namespace tidepool::gemma4_rows_test
