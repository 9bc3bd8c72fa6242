// Configs and names of text models within wrappers.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/hf_wrapper.h"
#include "huggingface/directory/quantization.h"
#include "huggingface/weights/wrapped_names.h"
#include "tests/support/family_cases.h"
#include "tests/support/file_text.h"

namespace tidepool::wrapper_test {

using ::testing::HasSubstr;

Result<ModelConfig> parse(const std::string& text) {
  return parse_hf_config(text, ErrorKind::bad_input, "c.json");
}

// A small config of Qwen3.5, with more keys beside and within text_config.
std::string wrapped(const std::string& beside, const std::string& within) {
  return fmt::format(R"({{"model_type": "qwen3_5", "vision_config": {{"depth": 1}}, {}
    "text_config": {{"vocab_size": 53, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 4, {}
                     "num_attention_heads": 4, "head_dim": 8}}}})",
                     beside, within);
}

TEST(WrapperConfig, KeysWithinCountBeforeThoseBeside) {
  EXPECT_EQ(parse(wrapped("", ""))->family, Family::qwen3_5_text);
  EXPECT_FALSE(parse(wrapped("", ""))->tied);
  EXPECT_TRUE(parse(wrapped(R"("tie_word_embeddings": true,)", ""))->tied);
  EXPECT_FALSE(parse(wrapped(R"("tie_word_embeddings": true,)", R"("tie_word_embeddings": false,)"))->tied);
  EXPECT_TRUE(parse(wrapped(R"("tie_word_embeddings": true,)", R"("tie_word_embeddings": null,)"))->tied);
  const std::string text = text_config_of(wrapped(R"("dtype": "float16", "eos_token_id": 7,)",
                                                  R"("mtp_num_hidden_layers": 1, "eos_token_id": 5,)"),
                                          ErrorKind::bad_input, "c.json")
                               .value();
  EXPECT_THAT(text, HasSubstr("\"dtype\": \"float16\""));
  EXPECT_THAT(text, HasSubstr("\"eos_token_id\": 5"));
  EXPECT_THAT(text, HasSubstr("\"mtp_num_hidden_layers\": 1"));
  EXPECT_THAT(text, HasSubstr("\"architectures\": [\"Qwen3_5ForCausalLM\"]"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("vision")));
}

// Published files of Gemma 3 leave out sizes that all of them share.
TEST(WrapperConfig, Gemma3LeavesOutSizes) {
  const ModelConfig c = parse(R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560,
      "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}, "eos_token_id": [1, 106]})")
                            .value();
  EXPECT_EQ(c.family, Family::gemma3_text);
  EXPECT_EQ(c.vocab_size, 262208);
  EXPECT_EQ(c.attention.heads, 8);
  EXPECT_EQ(c.kv_heads(), 4);
  EXPECT_EQ(c.head_size(), 256);
  EXPECT_TRUE(c.tied);
}

TEST(WrapperConfig, QuantizationStandsBesideAndNamesModulesOfTheTextModel) {
  const std::string text = wrapped(R"("quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 128],
      "modules_to_not_convert": ["model.language_model.layers.0.linear_attn.in_proj_a", "model.visual"]},)",
                                   "");
  const Quantization q = parse(text)->quantization;
  EXPECT_EQ(q.packing, Packing::fp8_block);
  EXPECT_THAT(q.unpacked_modules,
              ::testing::ElementsAre("model.layers.0.linear_attn.in_proj_a", "model.visual"));
  EXPECT_FALSE(
      parse_quantization(without_quantization(text, "c.json").value(), ErrorKind::bad_input, "c.json")
          .value());
}

TEST(WrapperConfig, RefusesOtherModelsByName) {
  EXPECT_THAT(
      parse(R"({"model_type": "qwen3_5"})").error().message,
      HasSubstr("c.json: text_config: is missing, which describes the text model of a qwen3_5 model"));
  EXPECT_THAT(parse(wrapped("", R"("model_type": "llama",)")).error().message,
              HasSubstr("\"llama\" is not the text model of qwen3_5 models that Tidepool trains, which is "
                        "qwen3_5_text"));
  for (const char* type : {"qwen3_5_vision", "qwen3_5_moe_vision", "siglip_vision_model"})
    EXPECT_THAT(parse(fmt::format(R"({{"model_type": "{}"}})", type)).error().message,
                HasSubstr(fmt::format("'{}' only reads images, and is not supported", type)));
  EXPECT_THAT(parse(wrapped("", R"("hidden_act": "gelu",)")).error().message,
              HasSubstr("c.json: hidden_act"));
}

TEST(WrapperConfig, OnlyChangedKeysOfTheTextModelAreWritten) {
  const std::string whole = test::file_text(test::wrapper_directory("qwen3_5") + "/config.json");
  const ModelConfig before = parse(whole).value();
  ModelConfig now = before;
  const auto changed = [&] {
    return with_text_changes(whole, hf_config_text(before, Precision::fp32, whole),
                             hf_config_text(now, Precision::fp32, whole), "c.json")
        .value();
  };
  EXPECT_EQ(changed(), whole);
  now.positions = 4711;
  const std::string text = changed();
  EXPECT_EQ(parse(text)->positions, 4711);
  EXPECT_THAT(text, HasSubstr("\"Qwen3_5ForConditionalGeneration\""));
  EXPECT_THAT(text, HasSubstr("\"dtype\": \"bfloat16\""));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("torch_dtype")));
  EXPECT_THAT(text, HasSubstr("\"vision_config\""));
}

TEST(WrapperNames, AreThoseOfTheTextModel) {
  EXPECT_EQ(text_tensor_name("model.language_model.layers.0.mlp.up_proj.weight"),
            "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(text_tensor_name("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(text_tensor_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(text_tensor_name("language_model.embed_tokens.weight"), "model.embed_tokens.weight");
  for (const char* name : {"model.visual.blocks.0.norm1.weight", "mtp.norm.weight", "lm_head.weight"})
    EXPECT_EQ(text_tensor_name(name), name);
  EXPECT_TRUE(is_text_tensor("model.norm.weight"));
  EXPECT_FALSE(is_text_tensor("mtp.norm.weight"));
  EXPECT_FALSE(is_text_tensor("model.visual.pos_embed.weight"));
}

TEST(WrapperNames, GoBackToThoseOfTheFile) {
  const StoredTensor packed{.name = "model.layers.0.mlp.up_proj.weight_blocks",
                            .other_name = "model.language_model.layers.0.mlp.up_proj.weight_blocks"};
  EXPECT_EQ(name_in_file_of(packed, "model.layers.0.mlp.up_proj.weight"),
            "model.language_model.layers.0.mlp.up_proj.weight");
  const StoredTensor head{.name = "model.embed_tokens.weight", .other_name = "lm_head.weight"};
  EXPECT_EQ(name_in_file_of(head, head.name), "lm_head.weight");
  EXPECT_EQ(name_in_file_of({.name = "model.norm.weight"}, "model.norm.weight"), "model.norm.weight");
}

}  // namespace tidepool::wrapper_test
