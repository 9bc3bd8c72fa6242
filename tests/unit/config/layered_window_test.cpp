// Families whose layers differ in window and angles (Gemma 3): config.json in the spellings of transformers 4
// and 5, and what neither may say.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/directory/config_difference.h"
#include "tests/support/hf_config.h"

namespace tidepool::layered_window_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string config_json(std::string_view more) {
  return fmt::format(
      R"({{"model_type": "gemma3_text", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
           "num_hidden_layers": 6, "num_attention_heads": 4{}}})",
      more);
}
ModelConfig parsed(std::string_view more) { return test::parsed_config(config_json(more)); }
std::string fault_of(std::string_view more) { return test::config_fault(config_json(more)); }

TEST(LayeredWindow, MissingKeysHaveTheDefaultsOfTransformers) {
  const ModelConfig c = parsed("");
  EXPECT_EQ(c.positions, 131072u);
  EXPECT_EQ(c.kv_heads(), 4u);
  EXPECT_EQ(c.head_size(), 256u);
  EXPECT_EQ(c.attention_scale_size(), 256u);
  EXPECT_EQ(c.window_of_any_layer(), 4096u);
  EXPECT_EQ(c.softmax.sliding_window_pattern, 6u);
  EXPECT_EQ(c.attention.rope.theta, 1e6);
  EXPECT_EQ(c.softmax.local_rope_theta, 1e4);
  EXPECT_TRUE(c.tied);
}

TEST(LayeredWindow, BothSpellingsOfAnglesAreTheSameModel) {
  const ModelConfig old = parsed(R"(, "rope_theta": 5e5, "rope_local_base_freq": 2e4,
                                     "rope_scaling": {"rope_type": "linear", "factor": 8.0})");
  const ModelConfig now = parsed(R"(, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})");
  EXPECT_EQ(old, now);
  EXPECT_EQ(now.attention.rope, (Rope{.type = RopeType::linear, .theta = 5e5, .factor = 8}));
  EXPECT_EQ(now.softmax.local_rope_theta, 2e4);
  // Written with both, as Tidepool does.
  EXPECT_EQ(parse_hf_config(hf_config_text(now, Precision::bf16), ErrorKind::bad_input, "c").value(), now);
}

// transformers builds the mask of the window even if no layer has one, and fails without a number.
TEST(LayeredWindow, AModelWithoutAWindowIsWrittenWithAllPositions) {
  ModelConfig c = parsed("");
  c.softmax.sliding_window = 0;
  const std::string text = hf_config_text(c, Precision::bf16);
  EXPECT_THAT(text, HasSubstr("\"sliding_window\": 131072"));
  const ModelConfig again = parse_hf_config(text, ErrorKind::bad_input, "c").value();
  EXPECT_EQ(again.window_of_any_layer(), 0u);
  EXPECT_EQ(config_difference(again, c), "");
  c.softmax.sliding_window = 16, c.softmax.sliding_window_pattern = 1;
  EXPECT_THAT(hf_config_text(c, Precision::bf16), HasSubstr("\"sliding_window\": 16"));
}

TEST(LayeredWindow, SpellingsThatTransformersReadsInAnotherWayAreRefused) {
  EXPECT_THAT(fault_of(R"(, "rope_parameters": {"rope_type": "linear", "factor": 4.0})"),
              HasSubstr("rope_parameters: must hold the maps full_attention and sliding_attention"));
  EXPECT_THAT(
      fault_of(R"(, "rope_scaling": {"type": "linear", "factor": 4.0})"),
      HasSubstr(
          "rope_scaling.type: is ignored by transformers for gemma3_text models, which reads rope_type"));
  EXPECT_THAT(fault_of(R"(, "rope_scaling": {"full_attention": {"rope_type": "default"}})"),
              HasSubstr("rope_scaling: has a map for each kind of layer"));
  EXPECT_THAT(fault_of(R"(, "rope_parameters": {"full_attention": 3})"),
              HasSubstr("rope_parameters.full_attention: must be an object"));
  const ModelConfig c = parsed(R"(, "rope_local_base_freq": 321,
      "rope_parameters": {"full_attention": null, "sliding_attention": {"rope_theta": null}})");
  EXPECT_EQ(c.softmax.local_rope_theta, 321);
}

TEST(LayeredWindow, WindowsMayNotScaleAngles) {
  EXPECT_THAT(
      fault_of(R"(, "rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}})"),
      HasSubstr("rope_parameters.sliding_attention: has rope_type \"linear\""));
  EXPECT_THAT(fault_of(R"(, "rope_parameters": {"sliding_attention": 3})"), HasSubstr("must be an object"));
}

TEST(LayeredWindow, APatternIsReadFromTheListOfLayers) {
  const auto pattern_of = [](std::string_view types) {
    return parsed(fmt::format(R"(, "layer_types": [{}])", types)).softmax.sliding_window_pattern;
  };
  constexpr std::string_view s = R"("sliding_attention")", f = R"("full_attention")";
  EXPECT_EQ(pattern_of(fmt::format("{0}, {0}, {1}, {0}, {0}, {1}", s, f)), 3u);
  EXPECT_EQ(pattern_of(fmt::format("{0}, {0}, {0}, {0}, {0}, {1}", s, f)), 6u);
  EXPECT_EQ(pattern_of(fmt::format("{0}, {0}, {0}, {0}, {0}, {0}", s)), 7u);
  EXPECT_EQ(pattern_of(fmt::format("{0}, {0}, {0}, {0}, {0}, {0}", f)), 1u);
  EXPECT_EQ(parsed(R"(, "sliding_window_pattern": 2)").softmax.sliding_window_pattern, 2u);
  EXPECT_THAT(
      fault_of(fmt::format(R"(, "layer_types": [{1}, {0}, {0}, {0}, {0}, {0}])", s, f)),
      HasSubstr("layer_types: names sliding_attention for layer 1 (the first is 0), against the pattern"));
  EXPECT_THAT(fault_of(fmt::format(R"(, "layer_types": [{0}, {1}])", s, f)),
              HasSubstr("layer_types: has 2 items for 6 layers"));
}

TEST(LayeredWindow, AnotherPatternIsWrittenIntoTheFileThatCame) {
  const std::string source = config_json(R"(, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention"])");
  ModelConfig c = parse_hf_config(source, ErrorKind::bad_input, "c").value();
  EXPECT_THAT(hf_config_text(c, Precision::bf16, source), Not(HasSubstr("sliding_window_pattern")));
  c.softmax.sliding_window_pattern = 3;
  const std::string text = hf_config_text(c, Precision::bf16, source);
  EXPECT_EQ(parse_hf_config(text, ErrorKind::bad_input, "c").value(), c);
  c.layers = 4;
  EXPECT_EQ(parse_hf_config(hf_config_text(c, Precision::bf16, source), ErrorKind::bad_input, "c").value(),
            c);
}

TEST(LayeredWindow, ADifferenceIsNamed) {
  ModelConfig c = parsed(""), other = c;
  other.softmax.sliding_window_pattern = 2, other.softmax.local_rope_theta = 5e3,
  other.softmax.scale_given = 100;
  EXPECT_THAT(config_difference(c, other),
              AllOf(HasSubstr("sliding_window_pattern is 6 there and 2 here"),
                    HasSubstr("rope_local_base_freq is 10000 there and 5000 here"),
                    HasSubstr("query_pre_attn_scalar is 256 there and 100 here")));
}

}  // namespace tidepool::layered_window_test
