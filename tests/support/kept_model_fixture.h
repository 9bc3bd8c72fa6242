// Fixture of a run that starts from a model directory and keeps a copy of it.
#pragma once

#include <gtest/gtest.h>

#include "huggingface/directory/hf_config.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::test {

class KeptModelTest : public ::testing::Test {
 protected:
  KeptModelTest() {
    ModelConfig model = small_model(Family::llama);
    model.vocab_size = 258;
    test::write_model_directory(model_, model, Precision::bf16);
    test::write_byte_tokenizer(model_);
    config_.model_directory = model_;
    config_.model = read_model_directory(model_).value();
    config_.output.save_steps = 2;
  }

  const TrainDir dir_;
  const std::string model_ = dir_ / "model";
  Config config_ = small_config(dir_);
  const std::string run_ = config_.output.dir, kept_ = run_ + "/model-files";
};

}  // namespace tidepool::test
