// Angles of the rotary embedding with YaRN against transformers 5.24's _compute_yarn_parameters, for
// published settings and for odd ones.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tidepool::rope_test {

struct YarnCase {
  const char* name;
  Family family;
  u32 columns;
  Rope rope;
  double factor;  // on cosine and sine
  std::vector<float> frequencies;
};

// clang-format off
std::vector<YarnCase> yarn_cases() {
  return {
      {.name = "gpt-oss",
       .family = Family::gpt_oss,
       .columns = 64,
       .rope = {.type = RopeType::yarn,
                .theta = 150000,
                .factor = 32,
                .original_positions = 4096,
                .truncate = false},
       .factor = 1.3465735902799727,
       .frequencies = {1.0f, 0.689044297f, 0.47478205f, 0.327145875f, 0.225418001f, 0.155322984f,
                       0.107024424f, 0.0737445652f, 0.0508132726f, 0.0317056961f, 0.0193349998f,
                       0.0115920492f, 0.00679495931f, 0.00386035908f, 0.00209379266f, 0.00105260219f,
                       0.000456483918f, 0.000129318694f, 3.83088118e-05f, 2.63964685e-05f, 1.8188337e-05f,
                       1.25325696e-05f, 8.63549576e-06f, 5.95023948e-06f, 4.09997847e-06f, 2.82506676e-06f,
                       1.94659629e-06f, 1.34129095e-06f, 9.24208962e-07f, 6.36820914e-07f, 4.38797855e-07f,
                       3.0235114e-07f}},
      {.name = "DeepSeek-V3",
       .family = Family::deepseek_v3,
       .columns = 64,
       .rope = {.type = RopeType::yarn,
                .theta = 10000,
                .factor = 40,
                .original_positions = 4096,
                .mscale = 1.0,
                .mscale_all_dim = 1.0},
       .factor = 1.0,
       .frequencies = {1.0f, 0.749894202f, 0.562341332f, 0.421696514f, 0.316227764f, 0.237137362f,
                       0.177827939f, 0.133352146f, 0.100000001f, 0.0749894157f, 0.0562341288f,
                       0.0390069261f, 0.0268793609f, 0.0183781441f, 0.012447956f, 0.0083345091f,
                       0.00550000044f, 0.00356199732f, 0.00224936521f, 0.00137051346f, 0.000790569407f,
                       0.000414990413f, 0.00017782794f, 3.3338034e-05f, 2.49999994e-05f, 1.87473543e-05f,
                       1.40585325e-05f, 1.05424124e-05f, 7.90569447e-06f, 5.92843435e-06f, 4.44569832e-06f,
                       3.33380353e-06f}},
      {.name = "Qwen3 at 131072",
       .family = Family::qwen3_moe,
       .columns = 128,
       .rope = {.type = RopeType::yarn, .theta = 1000000, .factor = 4, .original_positions = 32768},
       .factor = 1.138629436111989,
       .frequencies = {1.0f, 0.805842221f, 0.649381638f, 0.523299158f, 0.421696514f, 0.339820832f,
                       0.273841977f, 0.220673397f, 0.177827939f, 0.143301263f, 0.115478203f, 0.0930572003f,
                       0.0749894157f, 0.0604296438f, 0.0486967526f, 0.0392418988f, 0.0316227786f,
                       0.0254829675f, 0.0205352511f, 0.0165481716f, 0.0133352149f, 0.0107460786f,
                       0.00865964312f, 0.00697830599f, 0.00537532149f, 0.0041317381f, 0.00316842273f,
                       0.00242342241f, 0.00184827659f, 0.00140511245f, 0.00106436096f, 0.000802959781f,
                       0.000602941145f, 0.000450323569f, 0.000334240554f, 0.000246258394f, 0.000179841154f,
                       0.00012993149f, 9.26230132e-05f, 6.4903943e-05f, 4.44569851e-05f, 3.58253164e-05f,
                       2.88695483e-05f, 2.32643015e-05f, 1.87473561e-05f, 1.51074091e-05f, 1.21741887e-05f,
                       9.81047469e-06f, 7.90569356e-06f, 6.37074163e-06f, 5.13381246e-06f, 4.13704265e-06f,
                       3.33380353e-06f, 2.68651957e-06f, 2.16491094e-06f, 1.74457659e-06f, 1.40585337e-06f,
                       1.13289593e-06f, 9.1293532e-07f, 7.35681795e-07f, 5.92843435e-07f, 4.7773824e-07f,
                       3.84981632e-07f, 3.10234441e-07f}},
      {.name = "two scales, not truncated",
       .family = Family::qwen3_moe,
       .columns = 16,
       .rope = {.type = RopeType::yarn,
                .theta = 10000,
                .factor = 6,
                .original_positions = 64,
                .beta_fast = 20,
                .beta_slow = 2,
                .truncate = false,
                .mscale = 0.7,
                .mscale_all_dim = 1.3},
       .factor = 0.9128047181879534,
       .frequencies = {1.0f, 0.129852742f, 0.0166666675f, 0.00527046248f, 0.00166666671f, 0.00052704633f,
                       0.000166666665f, 5.27046286e-05f}},
      {.name = "one scale and a given factor",
       .family = Family::qwen3_moe,
       .columns = 16,
       .rope = {.type = RopeType::yarn,
                .theta = 10000,
                .factor = 6,
                .original_positions = 64,
                .attention_factor = 0.75,
                .mscale = 0.7},
       .factor = 0.75,
       .frequencies = {1.0f, 0.228386715f, 0.0444444418f, 0.00527046248f, 0.00166666671f, 0.00052704633f,
                       0.000166666665f, 5.27046286e-05f}},
  };
}
// clang-format on

ModelConfig model_of(const YarnCase& c) {
  ModelConfig model = default_model(c.family);
  model.attention.rope = c.rope;
  if (model.latent.kv_lora_rank != 0)
    model.latent.qk_rope_head_dim = c.columns;
  else
    model.softmax.head_size_given = c.columns;
  return model;
}

TEST(Yarn, AnglesAndFactorAreThoseOfTransformers) {
  for (const YarnCase& c : yarn_cases()) {
    const ModelConfig model = model_of(c);
    EXPECT_DOUBLE_EQ(model.attention.rope.rotary_factor(), c.factor) << c.name;
    const RotaryFrequencies found = inverse_frequencies(model, 0, 16);
    ASSERT_EQ(c.frequencies.size(), c.columns / 2);
    for (u32 i = 0; i < c.columns / 2; ++i)
      EXPECT_NEAR(found[i] / c.frequencies[i], 1, 3e-7) << c.name << ", pair " << i;
  }
}

// The limits of the ramp are the same pair: its length is then not 0, as in transformers.
TEST(Yarn, WithEqualLimitsIsAStep) {
  ModelConfig model = default_model(Family::qwen3_moe);
  model.softmax.head_size_given = 8;
  model.attention.rope = {
      .type = RopeType::yarn, .factor = 4, .original_positions = 6, .beta_fast = 2, .beta_slow = 1};
  const RotaryFrequencies found = inverse_frequencies(model, 0, 16);
  EXPECT_EQ(found[0], 1);
  EXPECT_NEAR(found[1], 0.1 / 4, 1e-8);
  EXPECT_NEAR(found[3], 0.001 / 4, 1e-10);
}

// transformers' _compute_longrope_parameters and _compute_dynamic_ntk_parameters, in double.
TEST(LongRope, TakesTheFactorsOfTheSequencesLength) {
  ModelConfig model = default_model(Family::phi3);
  model.softmax.head_size_given = 8;
  model.attention.rope = {.type = RopeType::longrope,
                          .factor = 32,
                          .original_positions = 4096,
                          .short_factor = {1, 1.5, 2, 2.5},
                          .long_factor = {1, 4, 16, 64}};
  for (const auto& [tokens, factors] : {std::pair(4096u, &model.attention.rope.short_factor),
                                        std::pair(4097u, &model.attention.rope.long_factor)}) {
    const RotaryFrequencies found = inverse_frequencies(model, 0, tokens);
    for (u32 i = 0; i < 4; ++i)
      EXPECT_NEAR(found[i] * (*factors)[i] * std::pow(1e4, i / 4.0), 1, 3e-7) << tokens << " " << i;
  }
  EXPECT_DOUBLE_EQ(model.attention.rope.rotary_factor(), 1.1902380714238083);
  model.attention.rope.attention_factor = 1.25;
  EXPECT_EQ(model.attention.rope.rotary_factor(), 1.25);
}

TEST(DynamicRope, GrowsWithSequencesBeyondThePositions) {
  ModelConfig model = default_model(Family::llama);
  model.softmax.head_size_given = 8, model.positions = 64;
  model.attention.rope = {.type = RopeType::dynamic, .factor = 4};
  EXPECT_EQ(model.longest_sequence(), 256u);
  const RotaryFrequencies plain = inverse_frequencies(model, 0, 64),
                          grown = inverse_frequencies(model, 0, 160);
  const double theta = 1e4 * std::pow(4 * 2.5 - 3, 8 / 6.0);
  for (u32 i = 0; i < 4; ++i) {
    EXPECT_NEAR(plain[i] * std::pow(1e4, i / 4.0), 1, 3e-7) << i;
    EXPECT_NEAR(grown[i] * std::pow(theta, i / 4.0), 1, 3e-7) << i;
  }
}

TEST(Yarn, LeavesOtherTypesAlone) {
  EXPECT_EQ(Rope{}.rotary_factor(), 1);
  EXPECT_EQ((Rope{.type = RopeType::linear, .factor = 8}).rotary_factor(), 1);
}

}  // namespace tidepool::rope_test
