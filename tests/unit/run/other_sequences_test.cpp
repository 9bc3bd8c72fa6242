// Messages of a refused resume whose steps would use other sequences.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/train_fixture.h"

namespace tidepool::other_sequences_test {

using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* by_files = "resume with the same files, tokenizer, data.shuffle and held-out data";

class OtherSequences : public ::testing::Test {
 protected:
  void stop_after_two(const Config& config) const {
    const auto stopped = test::run(config, {.stop_after = 2});
    ASSERT_FALSE(stopped);
    ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  }
  std::string write_documents(const std::string& name) const {
    const std::string path = dir_ / name;
    std::ofstream file(path);
    for (int i = 0; i < 200; ++i) file << R"({"text": "no. )" << i << R"("})" << '\n';
    return path;
  }
  std::string refusal(const Config& config) const {
    const auto resumed = test::run(config, {.resume = "auto"});
    EXPECT_FALSE(resumed);
    if (resumed) return "";
    EXPECT_EQ(resumed.error().kind, ErrorKind::usage);
    return resumed.error().message;
  }

  const TrainDir dir_;
  Config config_ = test::small_config(dir_);
};

// Regression: the message said that the data or the split differs.
TEST_F(OtherSequences, WithMoreDevicesAdviseASettingThatKeepsTheStep) {
  config_.train.gradient_accumulation_steps = 4;
  stop_after_two(config_);
  config_.machine.executor = "cpu:2";
  EXPECT_THAT(
      refusal(config_),
      AllOf(HasSubstr(
                "in steps of 8 sequences, but this config has steps of 16: devices (machine.executor): "
                "1 then, 2 now. Set train.gradient_accumulation_steps=2, which keeps the size of the step"),
            Not(HasSubstr(by_files))));
  config_.train.gradient_accumulation_steps = 2;
  const auto resumed = test::run(config_, {.resume = "auto"});
  EXPECT_TRUE(resumed) << resumed.error().message;
}

TEST_F(OtherSequences, AdviseSmallerBatchesOrOtherDevices) {
  stop_after_two(config_);
  config_.machine.executor = "cpu:2";
  EXPECT_THAT(refusal(config_),
              HasSubstr("Set train.per_device_train_batch_size=1, which keeps the size of the step"));
  config_.machine.executor = "cpu:3";
  EXPECT_THAT(refusal(config_),
              HasSubstr("1 then, 3 now. Choose train.per_device_train_batch_size, "
                        "train.gradient_accumulation_steps and devices whose product is 2"));
  config_.machine.executor = "cpu";
  config_.train.gradient_accumulation_steps = 3;
  EXPECT_THAT(refusal(config_), AllOf(HasSubstr("train.gradient_accumulation_steps: 1 then, 3 now"),
                                      Not(HasSubstr("devices"))));
}

// Regression: the message named no key.
TEST_F(OtherSequences, WithOtherDataKeysNameTheKeys) {
  stop_after_two(config_);
  config_.data.shuffle = false;
  config_.data.validation_fraction = 0.2;
  EXPECT_THAT(refusal(config_), AllOf(HasSubstr("data.shuffle: true then, false now"),
                                      HasSubstr("data.validation_fraction: 0.05 then, 0.2 now"),
                                      HasSubstr("now. Restore these settings, with the same files"),
                                      Not(HasSubstr("data.packing")), Not(HasSubstr(by_files))));
}

TEST_F(OtherSequences, OfPackedDocumentsNameTheKeys) {
  const std::string path = write_documents("documents.jsonl");
  config_.model = test::small_model(Family::llama);  // gpt2 is never packed
  config_.data.train = {path};
  stop_after_two(config_);
  config_.data.packing = false;
  EXPECT_THAT(refusal(config_), HasSubstr("data.packing: true then, false now"));
}

// Weights for two entries do not fit three.
TEST_F(OtherSequences, WithAnotherNumberOfSourcesReportBothNumbers) {
  config_.data.train = {write_documents("first.jsonl"), write_documents("second.jsonl")};
  config_.data.weights = {0.7, 0.3};
  stop_after_two(config_);
  config_.data.train.push_back(write_documents("third.jsonl"));
  config_.data.weights = {0.5, 0.3, 0.2};
  EXPECT_THAT(refusal(config_),
              AllOf(HasSubstr("data.train: 2 entries then, 3 now"), Not(HasSubstr("data.weights"))));
}

// Regression: the advice was to set a key without effect, and a path to the same file.
TEST_F(OtherSequences, WithOtherFilesDoNotBlameKeysWithoutEffect) {
  config_.data.shuffle = false;
  config_.data.validation = {"held-out.txt"};
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir_ / "");
  std::ofstream("held-out.txt") << test::made_up_text(2'000);
  stop_after_two(config_);
  std::ofstream(dir_.data()) << test::made_up_text(19'000);
  config_.train.seed += 1;
  config_.data.packing = false;
  config_.data.validation = {dir_ / "held-out.txt"};
  EXPECT_THAT(refusal(config_), HasSubstr(by_files));
  std::filesystem::current_path(before);
}

TEST_F(OtherSequences, WithOtherFilesNameTheFiles) {
  stop_after_two(config_);
  std::ofstream(dir_.data()) << test::made_up_text(19'000);
  EXPECT_THAT(refusal(config_), HasSubstr(by_files));
}

}  // namespace tidepool::other_sequences_test
