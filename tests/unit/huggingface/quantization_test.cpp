// quantization_config of config.json: formats that are read, and refusals that name the key and what to do.
#include "huggingface/directory/quantization.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace tidepool::quantization_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<std::optional<Quantization>> parsed(const std::string& quantization) {
  return parse_quantization(
      fmt::format(R"({{"model_type": "llama", "quantization_config": {}}})", quantization),
      ErrorKind::bad_input, "m/config.json");
}

Quantization accepted(const std::string& quantization) {
  const auto result = parsed(quantization);
  EXPECT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result && *result);
  return result && *result ? **result : Quantization{};
}

std::string refusal(const std::string& quantization) {
  const auto result = parsed(quantization);
  if (result) return "accepted";
  EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(result.error().message, HasSubstr("m/config.json: quantization_config"));
  return result.error().message;
}

TEST(Quantization, IsNoneWithoutTheKey) {
  for (const char* config : {R"({})", R"({"quantization_config": null})"}) {
    const auto result = parse_quantization(config, ErrorKind::bad_input, "config.json");
    ASSERT_TRUE(result);
    EXPECT_FALSE(*result);
  }
}

// As the models' own files have it.
TEST(Quantization, ReadsPublishedConfigs) {
  EXPECT_EQ(accepted(R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                         "weight_block_size": [128, 64], "modules_to_not_convert": ["lm_head", "model.norm"]})"),
            (Quantization{.packing = Packing::fp8_block,
                          .block_rows = 128,
                          .block_columns = 64,
                          .unpacked_modules = {"lm_head", "model.norm"}}));
  EXPECT_EQ(
      accepted(R"({"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]})").packing,
      Packing::fp8_block);
  EXPECT_EQ(accepted(R"({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]})"),
            (Quantization{.packing = Packing::mxfp4, .unpacked_modules = {"model.layers.*.self_attn"}}));
  EXPECT_EQ(accepted(R"({"_load_in_4bit": true, "_load_in_8bit": false, "bnb_4bit_compute_dtype": "bfloat16",
                         "bnb_4bit_quant_storage": "uint8", "bnb_4bit_quant_type": "nf4",
                         "bnb_4bit_use_double_quant": true, "llm_int8_enable_fp32_cpu_offload": false,
                         "llm_int8_has_fp16_weight": false, "llm_int8_skip_modules": ["lm_head"],
                         "llm_int8_threshold": 6.0, "load_in_4bit": true, "load_in_8bit": false,
                         "quant_method": "bitsandbytes"})"),
            (Quantization{.packing = Packing::nf4_double, .unpacked_modules = {"lm_head"}}));
  EXPECT_EQ(accepted(R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
                         "llm_int8_skip_modules": null})"),
            (Quantization{.packing = Packing::nf4}));
  EXPECT_EQ(accepted(R"({"load_in_8bit": true, "llm_int8_threshold": 6.0})"),
            (Quantization{.packing = Packing::int8_row}));
  EXPECT_EQ(
      accepted(R"({"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": ["gate"]})")
          .unpacked_modules,
      std::vector<std::string>{"gate"});
}

TEST(Quantization, RefusesOtherFormatsByTheirKey) {
  for (const char* method : {"gptq", "awq", "compressed-tensors", "modelopt", "hqq", "FP8"})
    EXPECT_THAT(refusal(fmt::format(R"({{"quant_method": "{}", "bits": 4}})", method)),
                AllOf(HasSubstr(fmt::format("quant_method: '{}' is not supported", method)),
                      HasSubstr("name the directory of the model before quantization")));
  EXPECT_THAT(refusal("{}"), HasSubstr("quant_method: is missing"));
  EXPECT_THAT(refusal(R"({"quant_method": 4})"), HasSubstr("quant_method: 4 must be a text"));
  EXPECT_THAT(refusal("4"), HasSubstr("must be an object"));
}

TEST(Quantization, RefusesFp8OfOtherKinds) {
  const auto with = [](const std::string& more) {
    return refusal(R"({"quant_method": "fp8", )" + more + "}");
  };
  EXPECT_THAT(with(R"("activation_scheme": "dynamic")"), HasSubstr("weight_block_size: is missing"));
  EXPECT_THAT(with(R"("weight_block_size": null)"), HasSubstr("only blocks such as [128, 128]"));
  for (const char* bad :
       {"[128]", "[128, 0]", "[128, -1]", "[128, 128.0]", "128", "[128, 70000]", "[128, 128, 1]"})
    EXPECT_THAT(with(fmt::format(R"("weight_block_size": {})", bad)),
                HasSubstr("must be two integers from 1 to 65536"))
        << bad;
  const std::string blocks = R"("weight_block_size": [128, 128], )";
  EXPECT_THAT(with(blocks + R"("fmt": "e5m2")"), HasSubstr("fmt: 'e5m2' is not supported, only e4m3 is"));
  EXPECT_THAT(with(blocks + R"("activation_scheme": "static")"), HasSubstr("activation_scheme: 'static'"));
  EXPECT_THAT(with(blocks + R"("scale_fmt": "int8")"), HasSubstr("scale_fmt: 'int8'"));
  EXPECT_THAT(with(blocks + R"("expert_dtype": "fp4")"), HasSubstr("expert_dtype: 'fp4'"));
  EXPECT_THAT(with(blocks + R"("modules_to_not_convert": "lm_head")"),
              HasSubstr("modules_to_not_convert: must be a list"));
  EXPECT_THAT(with(blocks + R"("modules_to_not_convert": [1])"), HasSubstr("must be a list"));
}

TEST(Quantization, RefusesBitsandbytesOfOtherKinds) {
  const auto with = [](const std::string& more) {
    return refusal(R"({"quant_method": "bitsandbytes", )" + more + "}");
  };
  EXPECT_THAT(with(R"("bits": 4)"), HasSubstr("load_in_4bit: and load_in_8bit are false or missing"));
  EXPECT_THAT(with(R"("load_in_4bit": true, "load_in_8bit": true)"), HasSubstr("only one can be"));
  EXPECT_THAT(with(R"("load_in_4bit": "true")"), HasSubstr("load_in_4bit: \"true\" must be true or false"));
  EXPECT_THAT(
      with(R"("load_in_4bit": true)"),
      HasSubstr(
          "bnb_4bit_quant_type: 'fp4', which counts if the key is missing, is not supported, only nf4"));
  EXPECT_THAT(with(R"("load_in_4bit": true, "bnb_4bit_quant_type": "fp4")"),
              HasSubstr("'fp4' is not supported"));
  EXPECT_THAT(
      with(R"("load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "bnb_4bit_quant_storage": "bfloat16")"),
      HasSubstr("bnb_4bit_quant_storage: 'bfloat16'"));
  EXPECT_THAT(with(R"("load_in_8bit": true, "llm_int8_has_fp16_weight": true)"),
              HasSubstr("llm_int8_has_fp16_weight: is true"));
}

}  // namespace tidepool::quantization_test
