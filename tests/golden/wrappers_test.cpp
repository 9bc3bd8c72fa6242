// Text models within models that also read images: they agree with transformers, and training that changes
// nothing, with an export of its checkpoint, gives the same bytes again.
#include <gmock/gmock.h>

#include "checkpoint/export_model.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "inference/export_source.h"
#include "tests/support/family_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/golden_steps.h"
#include "tests/support/model_runner.h"
#include "tests/support/safetensors.h"
#include "tests/support/train_fixture.h"

namespace tidepool::test::wrappers_test {

constexpr u32 sequences = 2, tokens_per_sequence = 20;

class Wrappers : public testing::TestWithParam<const char*> {
 protected:
  // Trains one step of rate 0.
  void train() {
    Config c = small_config(dir_);
    c.model_directory = directory_;
    c.model = read_model_directory(directory_).value();
    c.data.train = {token_file(dir_)};
    c.data.format = DataFormat::nanogpt;
    c.train.precision = hf_precision(directory_).value().value();
    c.train.sequence_length = 16;
    c.train.max_steps = 1;
    c.train.learning_rate = 0;
    c.train.weight_decay = 0;
    const auto report = run(c);
    ASSERT_TRUE(report) << report.error().message;
    run_ = c.output.dir;
  }
  void write(const ExportRequest& request, const std::string& out) {
    std::string unused;
    const ExportSource source = find_export_source(request, unused).value();
    const auto model =
        ModelExport::open(source.directory, {.base = source.base, .text_only = request.text_only});
    ASSERT_TRUE(model) << model.error().message;
    const auto written = (*model)->write(out, *create_posix_files(), [](u64) { return true; });
    ASSERT_TRUE(written) << written.error().message;
  }
  void expect_logits(const std::string& directory) {
    const Safetensors expected(directory_ + "/expected.safetensors");
    const auto pool = make_pool(2);
    const ModelConfig config = read_model_directory(directory).value();
    ModelRunner model(build_model(config, Precision::fp32,
                                  {.sequences = sequences, .tokens = tokens_per_sequence}, Precision::fp32)
                          .value(),
                      *pool);
    WeightsWriter writer(model.weights);
    ASSERT_TRUE(load_weights(directory, model.graph(), writer));
    model.upload();
    const auto tokens = expected.get<i32>("tokens");
    std::vector<float> logits;
    for (u32 row = 0; row < sequences * tokens_per_sequence; ++row)
      for (const float logit : model.logits(tokens.data(), row)) logits.push_back(logit);
    EXPECT_LT(distance(logits, expected.get<float>("logits")), 2e-5) << directory;
  }

  const TrainDir dir_;
  const std::string directory_ = wrapper_directory(GetParam());
  std::string run_;
};

TEST_P(Wrappers, LogitsAgreeWithTransformers) { expect_logits(directory_); }

TEST_P(Wrappers, ATrainedTextModelIsPutBackByteForByte) {
  train();
  expect_logits(run_ + "/checkpoint-1");
  const std::string out = dir_ / "out";
  write({.path = run_}, out);
  for (const char* file :
       {"config.json", "model.safetensors", "preprocessor_config.json", "video_preprocessor_config.json"})
    EXPECT_TRUE(file_text(out + "/" + file) == file_text(directory_ + "/" + file)) << file;
}

TEST_P(Wrappers, TheTextModelIsWrittenAlone) {
  train();
  const std::string of_run = dir_ / "of_run", of_directory = dir_ / "of_directory";
  write({.path = run_, .text_only = true}, of_run);
  write({.path = directory_, .text_only = true}, of_directory);
  for (const std::string& out : {of_run, of_directory}) {
    expect_logits(out);
    const Safetensors tensors(out + "/model.safetensors");
    EXPECT_EQ(tensors.count("model.layers.") + tensors.count("model.embed_tokens.") +
                  tensors.count("model.norm.") + tensors.count("lm_head."),
              tensors.names().size());
    EXPECT_FALSE(std::filesystem::exists(out + "/preprocessor_config.json"));
    EXPECT_EQ(parse_hf_config(file_text(out + "/config.json"), ErrorKind::bad_input, "c").value().family,
              read_model_directory(directory_)->family);
    EXPECT_THAT(file_text(out + "/config.json"), testing::Not(testing::HasSubstr("vision")));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Wrappers, testing::ValuesIn(wrapper_cases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::wrappers_test
