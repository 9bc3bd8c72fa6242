// Compares classifiers of sequences with transformers: logits, loss and gradients of padded texts.
#include <gmock/gmock.h>

#include <cmath>

#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "tests/support/golden_steps.h"
#include "tests/support/model_runner.h"
#include "tests/support/places.h"
#include "tests/support/safetensors.h"
#include "tidepool/ignored_target.h"

namespace tidepool::test::classifiers_test {

constexpr u32 texts = 3, row_tokens = 20;
constexpr double tolerance = 1e-5;

// A micro-batch with the label of each text as the target of its last token.
struct Batch {
  std::vector<i32> tokens, targets, starts;
  std::vector<u32> last;  // row of each text's last token
};

class Classifiers : public testing::TestWithParam<const char*> {
 protected:
  const std::string directory = source_file("tests/golden/classifiers/") + GetParam();
  const Safetensors expected{directory + "/expected.safetensors"};
  const ModelConfig config = read_model_directory(directory).value();
  std::unique_ptr<CorePool> pool = make_pool(2);

  ModelRunner load(BatchShape batch) {
    ModelRunner model(build_model(config, Precision::fp32, batch).value(), *pool);
    WeightsWriter writer(model.weights);
    const auto unused = load_weights(directory, model.graph(), writer);
    EXPECT_TRUE(unused) << unused.error().message;
    EXPECT_THAT(*unused, testing::IsEmpty());
    model.upload();
    return model;
  }

  // `side_by_side`: the texts share one sequence; else each has a sequence of its own, padded behind it.
  Batch batch(bool side_by_side) {
    const auto given = expected.get<i32>("tokens"), lengths = expected.get<i32>("lengths"),
               labels = expected.get<i32>("labels");
    Batch out;
    out.tokens.assign(texts * row_tokens, 0);
    out.targets.assign(texts * row_tokens, padding_target);
    for (u32 row = 0; row < texts * row_tokens; ++row) out.starts.push_back(i32(row));
    u32 at = 0;
    for (u32 text = 0; text < texts; ++text) {
      if (!side_by_side) at = text * row_tokens;
      const u32 begin = at;
      for (i32 t = 0; t < lengths[text]; ++t, ++at) {
        out.tokens[at] = given[text * row_tokens + u32(t)];
        out.targets[at] = ignored_target;
        out.starts[at] = i32(begin);
      }
      out.last.push_back(at - 1);
      out.targets[at - 1] = labels[text];
    }
    return out;
  }

  void expect_as_in_transformers(ModelRunner& model, const Batch& batch, const i32* starts) {
    for (const bool keep : {true, false}) {
      const double sum = model.forward_backward(batch.tokens.data(), batch.targets.data(), 1.0 / texts,
                                                {.keep = keep, .starts = starts});
      const double loss = expected.get<double>("loss")[0];
      EXPECT_LT(std::abs(sum / texts - loss) / loss, tolerance);
      const auto gradients = model.gradients();
      for (const auto& [name, gradient] : gradients)
        EXPECT_LT(distance(gradient, expected.get<float>("gradients/" + name)), tolerance) << name;
      EXPECT_EQ(gradients.size(), expected.count("gradients/"));
    }
  }
};

TEST_P(Classifiers, LogitsAgreeWithTransformers) {
  ModelRunner model = load({.sequences = texts, .tokens = row_tokens});
  const Batch padded = batch(false);
  std::vector<float> logits;
  for (const u32 row : padded.last)
    for (const float logit : model.logits(padded.tokens.data(), row)) logits.push_back(logit);
  EXPECT_LT(distance(logits, expected.get<float>("logits")), tolerance);
}

TEST_P(Classifiers, LossAndGradientsAgreeWithTransformers) {
  ModelRunner model = load({.sequences = texts, .tokens = row_tokens});
  expect_as_in_transformers(model, batch(false), nullptr);
}

TEST_P(Classifiers, TextsSideBySideGiveTheSame) {
  if (!can_pack(config.family)) GTEST_SKIP() << "positions are learned for whole sequences";
  ModelRunner model = load({.sequences = 1, .tokens = texts * row_tokens, .packed = true});
  const Batch packed = batch(true);
  expect_as_in_transformers(model, packed, packed.starts.data());
}

TEST_P(Classifiers, ConfigIsWrittenAsItIsRead) {
  const std::string text = hf_config_text(config, Precision::fp32);
  const ModelConfig again = parse_hf_config(text, ErrorKind::bad_input, "config.json").value();
  EXPECT_EQ(again.score, config.score);
  EXPECT_EQ(hf_config_text(again, Precision::fp32), text);
}

INSTANTIATE_TEST_SUITE_P(All, Classifiers, testing::Values("gpt2", "llama", "qwen2_tied", "gemma3_text"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::classifiers_test
