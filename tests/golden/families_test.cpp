// Compares logits, loss and gradients of small models of each family with transformers; the model directories
// are read as users' directories are.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/load_weights.h"
#include "tests/support/family_cases.h"
#include "tests/support/golden_steps.h"
#include "tests/support/model_runner.h"
#include "tests/support/safetensors.h"

namespace tidepool::test::families_test {

constexpr u32 sequences = 2, tokens_per_sequence = 20, rows = sequences * tokens_per_sequence;

// RETURNS: gradients by the names of files.
std::map<std::string, std::vector<float>> gradients_in_files(ModelRunner& model) {
  const auto gradients = model.gradients();
  std::map<std::string, std::vector<float>> out;
  for (const FileTensor& file : file_tensors(model.graph(), form_of_files(model.graph().config)))
    for (const FileTensor::Part& part : file.parts) {
      const auto& values = gradients.at(model.graph().windows[part.window].tensors[part.tensor].name);
      out[file.name].insert(out[file.name].end(), values.begin(), values.end());
    }
  return out;
}

class Families : public testing::TestWithParam<const char*> {
 protected:
  // transformers rounds sums of decays.
  static bool is_recurrent(std::string_view name) {
    return name.starts_with("qwen3_5") || name.starts_with("qwen3_next") || name.starts_with("nemotron_h") ||
           name.starts_with("granitemoehybrid");
  }
  const double tolerance =
      std::string_view(GetParam()).starts_with("gpt_oss") || is_recurrent(GetParam()) ? 2e-5 : 1e-5;
  const std::string directory = family_directory(GetParam());
  const Safetensors expected{directory + "/expected.safetensors"};
  std::unique_ptr<CorePool> pool = make_pool(2);

  // `experts_per_group`: as in build_model(). `tile`: BatchShape::tile_tokens.
  ModelRunner load(u32 experts_per_group = 0, u32 tile = 0) {
    const ModelConfig config = read_model_directory(directory).value();
    ModelRunner model(
        build_model(config, Precision::fp32,
                    {.sequences = sequences, .tokens = tokens_per_sequence, .tile_tokens = tile},
                    Precision::fp32, {}, experts_per_group)
            .value(),
        *pool);
    WeightsWriter writer(model.weights);
    const auto unused = load_weights(directory, model.graph(), writer);
    EXPECT_TRUE(unused) << unused.error().message;
    EXPECT_THAT(*unused, testing::IsEmpty());
    model.upload();
    return model;
  }

  void expect_loss_and_gradients(ModelRunner model, std::initializer_list<bool> keeps,
                                 double tolerance) const;
};

TEST_P(Families, LogitsAgreeWithTransformers) {
  ModelRunner model = load();
  const auto tokens = expected.get<i32>("tokens");
  std::vector<float> logits;
  for (u32 row = 0; row < rows; ++row)
    for (const float logit : model.logits(tokens.data(), row)) logits.push_back(logit);
  const double away = distance(logits, expected.get<float>("logits"));
  EXPECT_LT(away, tolerance);
  RecordProperty("logits", fmt::format("{:.1e}", away));
}

void Families::expect_loss_and_gradients(ModelRunner model, std::initializer_list<bool> keeps,
                                         double tolerance) const {
  const auto tokens = expected.get<i32>("tokens"), targets = expected.get<i32>("targets");
  const auto valid = std::count_if(targets.begin(), targets.begin() + rows, [](i32 t) { return t >= 0; });
  const double loss = expected.get<double>("loss")[0];
  double worst = 0;
  for (const bool keep : keeps) {
    model.router_losses() = {};
    const double sum =
        model.forward_backward(tokens.data(), targets.data(), 1.0 / double(valid), {.keep = keep});
    const Experts& experts = model.graph().config.experts;
    const double router = (experts.balance ? experts.balance_factor * model.router_losses().balance : 0) +
                          experts.z_factor * model.router_losses().z;
    EXPECT_NEAR(sum / double(valid) + router, loss, tolerance * loss);
    const auto gradients = gradients_in_files(model);
    u64 untrained = 0;
    for (const auto& [name, gradient] : gradients) {
      if (name.ends_with(".e_score_correction_bias") || name.ends_with(".layer_scalar")) {
        EXPECT_THAT(gradient, testing::Each(0.0f)) << name;
        ++untrained;
        continue;
      }
      const double away = distance(gradient, expected.get<float>("gradients/" + name));
      EXPECT_LT(away, tolerance) << name;
      worst = std::max(worst, away);
    }
    EXPECT_EQ(gradients.size() - untrained, expected.count("gradients/"));
  }
  RecordProperty("worst_gradient", fmt::format("{:.1e}", worst));
}

TEST_P(Families, LossAndGradientsAgreeWithTransformers) {
  expect_loss_and_gradients(load(), {true, false}, tolerance);
}

// Tiles of 7 and of 16 tokens: the last of a sequence is shorter.
TEST_P(Families, TilesOfSequencesAgreeWithTransformers) {
  for (const u32 tile : {7u, 16u}) {
    ModelRunner model = load(0, tile);
    EXPECT_EQ(model.graph().batch.tiles(), sequences * div_up(tokens_per_sequence, tile));
    // In one model a gradient is a small rest of large terms: 1.0e-5 from the reference without tiles.
    const bool cancels = std::string_view(GetParam()) == "qwen3_5_linear";
    expect_loss_and_gradients(std::move(model), {true, false}, cancels ? 2 * tolerance : tolerance);
  }
}

// Sums run in the order of experts, whatever their groups.
TEST_P(Families, GroupsOfExpertsChangeNoBit) {
  const auto tokens = expected.get<i32>("tokens"), targets = expected.get<i32>("targets");
  ModelRunner whole = load();
  const u32 experts = whole.graph().config.experts.count;
  if (experts == 0) GTEST_SKIP() << "has no experts";
  const double sum = whole.forward_backward(tokens.data(), targets.data(), 0.1);
  const auto gradients = whole.gradients();
  for (u32 group = 1; group < experts; ++group)
    for (const bool keep : {true, false}) {
      ModelRunner model = load(group);
      EXPECT_EQ(model.forward_backward(tokens.data(), targets.data(), 0.1, {.keep = keep}), sum) << group;
      EXPECT_EQ(model.gradients(), gradients) << group;
    }
}

TEST_P(Families, ConfigIsWrittenAsItIsRead) {
  const ModelConfig config = read_model_directory(directory).value();
  const std::string text = hf_config_text(config, Precision::bf16);
  const ModelConfig again = parse_hf_config(text, ErrorKind::bad_input, "config.json").value();
  EXPECT_EQ(hf_config_text(again, Precision::bf16), text);
  EXPECT_EQ(build_model(again, Precision::fp32, {.tokens = 8})->windows,
            build_model(config, Precision::fp32, {.tokens = 8})->windows);
}

INSTANTIATE_TEST_SUITE_P(Cases, Families, testing::ValuesIn(family_cases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::families_test
