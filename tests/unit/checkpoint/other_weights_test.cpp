// Model directories whose weights cannot be read: every command names the files that were found instead.
#include "huggingface/weights/other_weights.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "inference/evaluate.h"
#include "inference/export_source.h"
#include "inference/generate_place.h"
#include "run/weights/first_weights.h"
#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::other_weights_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OtherWeights : public ::testing::Test {
 protected:
  OtherWeights() { test::write_model_directory(model_, test::small_model(Family::llama), Precision::fp32); }
  std::string file(const std::string& name) const { return model_ + "/" + name; }

  void expect_refused(const auto& what) {
    EXPECT_FALSE(has_weights(model_));
    EXPECT_THAT(other_weights(model_), what);
    const auto refused = [&](const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::bad_input);
      EXPECT_THAT(error.message, what);
    };
    Config config;
    config.model_directory = model_;
    refused(check_weights_are_there(config).error());
    refused(find_generate_place(model_).error());
    refused(find_export_source(model_, "").error());
    refused(evaluate_model({.source = model_, .data = {dir_.data()}, .quiet = true}).error());
  }

  const test::TrainDir dir_;
  const std::string model_ = dir_ / "model";
};

// Regression: commands said "model.safetensors: cannot open", or "holds no checkpoint".
TEST_F(OtherWeights, ShardsWithoutAnIndexAreRefused) {
  EXPECT_TRUE(has_weights(model_));
  EXPECT_EQ(other_weights(model_), "");
  fs::rename(file("model.safetensors"), file("model-00002-of-00002.safetensors"));
  test::write_file(file("model-00001-of-00002.safetensors"), "");
  test::write_file(file("pytorch_model.bin"), "");
  expect_refused(AllOf(HasSubstr(model_ + ": its weights are in several files, such as "
                                          "model-00001-of-00002.safetensors"),
                       HasSubstr("model.safetensors.index.json"), HasSubstr("fetch the index")));
}

TEST_F(OtherWeights, PickledWeightsAreRefusedWithAdvice) {
  fs::remove(file("model.safetensors"));
  EXPECT_EQ(other_weights(model_), "");
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    test::write_file(file(name), "");
    expect_refused(AllOf(HasSubstr(model_ + ": its weights are in pytorch_model.bin"),
                         HasSubstr("save_pretrained(DIR)")));
    fs::remove(file(name));
  }
}

}  // namespace tidepool::other_weights_test
