// Models with a sliding window: read as in transformers, and written back unchanged.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/config.h"
#include "config_files/load_config.h"
#include "huggingface/directory/hf_config.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/model_directory.h"

namespace tidepool::window_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string config_json(std::string_view type, std::string_view more, u32 layers = 4) {
  return fmt::format(
      R"({{"model_type": "{}", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
           "num_hidden_layers": {}, "num_attention_heads": 8, "num_key_value_heads": 8{}}})",
      type, layers, more);
}
Result<ModelConfig> parsed(std::string_view type, std::string_view more, u32 layers = 4) {
  return parse_hf_config(config_json(type, more, layers), ErrorKind::bad_input, "config.json");
}
u32 window_of(std::string_view type, std::string_view more, u32 layers = 4) {
  const auto model = parsed(type, more, layers);
  EXPECT_TRUE(model) << model.error().message;
  return model ? model->window_of_any_layer() : 1;
}
std::string fault_of(std::string_view type, std::string_view more) {
  const auto model = parsed(type, more);
  return model ? "no error" : model.error().message;
}

TEST(SlidingWindow, IsReadAsTransformersReadsIt) {
  EXPECT_EQ(window_of("mistral", ""), 4096u);
  EXPECT_EQ(window_of("mistral", R"(, "sliding_window": null)"), 0u);
  EXPECT_EQ(window_of("mistral", R"(, "sliding_window": 512)"), 512u);
  for (const char* qwen : {"qwen2", "qwen3"}) {
    EXPECT_EQ(window_of(qwen, ""), 0u);
    EXPECT_EQ(window_of(qwen, R"(, "sliding_window": 512)"), 0u);
    EXPECT_EQ(window_of(qwen, R"(, "sliding_window": 512, "use_sliding_window": false)"), 0u);
    EXPECT_EQ(window_of(qwen, R"(, "sliding_window": null, "use_sliding_window": true)"), 0u);
    // The first 28 layers have no window.
    EXPECT_EQ(window_of(qwen, R"(, "sliding_window": 512, "use_sliding_window": true)"), 0u);
    EXPECT_EQ(window_of(qwen, R"(, "sliding_window": 512, "use_sliding_window": true)", 29), 512u);
    EXPECT_EQ(window_of(qwen, R"(, "use_sliding_window": true, "max_window_layers": 3)"), 4096u);
    EXPECT_EQ(
        window_of(qwen, R"(, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 4)"),
        0u);
    // A list of layers takes precedence.
    EXPECT_EQ(window_of(qwen, R"(, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 9,
                                 "layer_types": ["full_attention", "sliding_attention"])"),
              512u);
    EXPECT_EQ(window_of(qwen, R"(, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 0,
                                 "layer_types": ["full_attention", "full_attention"])"),
              0u);
  }
}

TEST(SlidingWindow, AMalformedWindowIsRefusedByName) {
  EXPECT_THAT(fault_of("mistral", R"(, "sliding_window": 0)"),
              HasSubstr("sliding_window: 0 must be an integer from 1 on, or null"));
  EXPECT_THAT(fault_of("mistral", R"(, "sliding_window": "512")"), HasSubstr("sliding_window: \"512\""));
  EXPECT_THAT(fault_of("qwen2", R"(, "sliding_window": 1e30)"), HasSubstr("sliding_window: "));
  EXPECT_THAT(
      fault_of("qwen2", R"(, "layer_types": ["sliding_attention"])"),
      HasSubstr(
          "layer_types: names sliding_attention, but use_sliding_window and sliding_window give no window"));
  EXPECT_THAT(fault_of("qwen3", R"(, "layer_types": ["linear_attention"])"),
              HasSubstr("layer_types: \"linear_attention\" is not supported"));
  EXPECT_THAT(fault_of("llama", R"(, "use_sliding_window": true)"), HasSubstr("use_sliding_window: 'true'"));
}

TEST(SlidingWindow, LayersFromMaxWindowLayersOnHaveIt) {
  const ModelConfig c =
      parsed("qwen2", R"(, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 3)")
          .value();
  EXPECT_EQ(c.attention_window(2), 0u);
  EXPECT_EQ(c.attention_window(3), 512u);
  const ModelConfig again =
      parse_hf_config(hf_config_text(c, Precision::bf16), ErrorKind::bad_input, "c").value();
  EXPECT_EQ(again.attention_window(2), 0u);
  EXPECT_EQ(again.attention_window(3), 512u);
  EXPECT_THAT(fault_of("qwen2", R"(, "sliding_window": 512, "use_sliding_window": true, "layer_types":
                  ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])"),
              HasSubstr("layer_types: names full_attention after sliding_attention"));
}

TEST(SlidingWindow, TheConfigReadsBackTheSame) {
  const test::ScratchDir dir;
  for (const Family family : {Family::mistral, Family::qwen2, Family::qwen3}) {
    ModelConfig model = default_model(family);
    model.softmax.sliding_window = 300, model.softmax.use_sliding_window = family != Family::mistral;
    EXPECT_EQ(parse_hf_config(hf_config_text(model, Precision::bf16), ErrorKind::bad_input, "c")
                  ->window_of_any_layer(),
              300u);
    const auto yaml = parse_config("", "c",
                                   {fmt::format("model_type={}", name(family)), "sliding_window=300",
                                    family == Family::mistral ? "data.train=d" : "use_sliding_window=true",
                                    "data.train=d", "memory.device=1GiB", "memory.host=1GiB"});
    ASSERT_TRUE(yaml) << yaml.error().message;
    EXPECT_EQ(parse_config(to_yaml(*yaml), "c", {}).value(), *yaml);
  }
}

// Only the file says which layers have the window.
TEST(SlidingWindow, KeysOfTheFileAreWrittenBackAsTheyCame) {
  const std::string source =
      config_json("qwen2", R"(, "sliding_window": 512, "use_sliding_window": true, "max_window_layers": 3,
                  "layer_types": ["full_attention", "full_attention", "full_attention", "sliding_attention"])");
  ModelConfig model = parse_hf_config(source, ErrorKind::bad_input, "config.json").value();
  EXPECT_THAT(hf_config_text(model, Precision::bf16, source),
              AllOf(HasSubstr("\"sliding_window\": 512"), HasSubstr("\"use_sliding_window\": true"),
                    HasSubstr("\"max_window_layers\": 3"), HasSubstr("\"sliding_attention\"")));
  model.softmax.use_sliding_window = false;
  const std::string without = hf_config_text(model, Precision::bf16, source);
  EXPECT_THAT(without,
              AllOf(HasSubstr("\"sliding_window\": null"), HasSubstr("\"use_sliding_window\": false")));
  EXPECT_EQ(parse_hf_config(without, ErrorKind::bad_input, "c")->window_of_any_layer(), 0u);
}

}  // namespace tidepool::window_test
