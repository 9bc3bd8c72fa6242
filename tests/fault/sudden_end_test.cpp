// Unplanned ends: Ctrl-C before the first step, a generate without a reader or with damaged weights.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::sudden_end_test {

namespace fs = std::filesystem;
using test::Child;
using test::ChildRun;
using test::file_text;
using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

Config streaming_config(const TrainDir& dir) {
  Config c = test::small_config(dir);
  c.memory.home = HomePolicy::disk;
  c.memory.chunk_size = Bytes{40 * kib};
  return c;
}

void expect_no_litter(const Config& config) {
  for (const char* name : {"/swap", "/generate-swap", "/tidepool.run"})
    EXPECT_FALSE(fs::exists(config.output.dir + name)) << name;
}

TEST(SuddenEnd, CtrlCBeforeTheFirstStepLeavesNothing) {
  const TrainDir dir;
  Config config = streaming_config(dir);
  config.train.max_steps = 100'000;
  for (u32 tries = 0; tries < 10; ++tries) {  // on a busy machine training may have begun
    fs::remove_all(config.output.dir);
    ChildRun child(config);
    while (!child.ended() && !fs::exists(config.output.dir + "/swap/tidepool.swap"))
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    child.signal(SIGINT);
    const int code = child.wait();
    expect_no_litter(config);
    if (code == 75) continue;
    EXPECT_EQ(code, 130) << child.output();
    EXPECT_THAT(child.output(), HasSubstr("before the first step"));
    return;
  }
  GTEST_SKIP() << "SKIPPED: never came in time";
}

// ---- generate

class Generate : public ::testing::Test {
 protected:
  Generate() {
    config_.output.save_steps = 2;
    test::train_numbers(config_);
  }
  int generate(const std::string& path) {
    Child child({"generate", path, "--max-new-tokens", "3", "--threads", "2"}, dir_ / "log");
    const int code = child.wait();
    said_ = child.output();
    return code;
  }
  std::string checkpoint(u64 step) const { return fmt::format("{}/checkpoint-{}", config_.output.dir, step); }
  void damage(u64 step) {
    const std::string path = checkpoint(step) + "/model.safetensors";
    std::string text = file_text(path);
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 4);
    std::ofstream(path, std::ios::binary) << text;
  }

  const TrainDir dir_;
  Config config_ = streaming_config(dir_);
  std::string said_;
};

TEST_F(Generate, VerifiesTheWeightsItReads) {
  damage(4);
  EXPECT_EQ(generate(checkpoint(4)), 5) << said_;
  EXPECT_EQ(generate(config_.output.dir), 0) << said_;
  EXPECT_THAT(said_, AllOf(HasSubstr("skipped " + checkpoint(4)), HasSubstr("using " + checkpoint(2))));
  fs::resize_file(checkpoint(2) + "/model.safetensors", 1000);
  EXPECT_EQ(generate(config_.output.dir), 5) << said_;
  EXPECT_THAT(said_, AllOf(HasSubstr(checkpoint(4)), HasSubstr(checkpoint(2)), HasSubstr("truncated")));
}

TEST_F(Generate, FindsTheRunOfAnyGivenPath) {
  const fs::path before = fs::current_path();
  fs::current_path(checkpoint(4));
  EXPECT_EQ(generate("."), 0) << said_;
  fs::current_path(before);
  EXPECT_EQ(generate(checkpoint(4) + "/"), 0) << said_;
  fs::create_directory(dir_ / "empty");
  for (const std::string& path : {dir_ / "empty", dir_ / "nosuch", dir_.data()})
    EXPECT_EQ(generate(path), 2) << said_;
}

TEST_F(Generate, WithoutAReaderLeavesNothing) {
  std::string yaml = file_text(config_.output.dir + "/config.yaml");
  const auto put = [&](const std::string& from, const std::string& to) {
    const u64 at = yaml.find(from);
    ASSERT_NE(at, std::string::npos) << yaml;
    yaml.replace(at, from.size(), to);
  };
  put("device: 16MiB", "device: 640KiB");  // small, so that a swap file is needed
  put("host: 16MiB", "host: 1700KiB");
  std::ofstream(config_.output.dir + "/config.yaml") << yaml;
  EXPECT_EQ(generate(config_.output.dir), 0) << said_;
  const std::string words = fmt::format(
      "{{ {} generate {} --max-new-tokens 100000 2>/dev/null; echo $? >{}; }} | head -c 5 >/dev/null",
      program_file(), config_.output.dir, dir_ / "code");
  ASSERT_EQ(std::system(words.c_str()), 0);
  EXPECT_EQ(file_text(dir_ / "code"), "141\n");
  expect_no_litter(config_);
}

}  // namespace tidepool::sudden_end_test
