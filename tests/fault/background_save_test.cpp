// A checkpoint that takes long is written while the run trains on: what it reads stays as it was, and with
// three versions of the state the steps meanwhile are committed.
#include <gmock/gmock.h>

#include <filesystem>

#include "io/state_journal.h"
#include "io/swap_file.h"
#include "report/run_report.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"
#include "tests/support/slow_flush.h"
#include "tests/support/train_fixture.h"

namespace tidepool::background_save_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::SlowFlush;
using test::TrainDir;
using testing::HasSubstr;

constexpr u64 save_step = 8;

Config saving_config(const TrainDir& dir, u32 versions, const std::string& run = "run") {
  Config c = test::small_config(dir, run);
  c.memory.home = HomePolicy::disk;
  c.memory.versions = versions;
  c.train.precision = Precision::bf16;
  c.train.max_steps = 2 * save_step - 1;
  c.train.max_grad_norm = 0.5;
  c.output.save_steps = save_step;
  c.output.save_minutes = 0;
  c.output.persist_steps = 1;
  return c;
}

// The flush of a checkpoint's weights. The moments are read after it.
constexpr const char* of_weights = "model.safetensors";

bool is_being_saved(const Config& c) {
  for (const fs::directory_entry& entry : fs::directory_iterator(c.output.dir))
    if (entry.path().filename().string().find("checkpoint-8.tmp") == 0) return true;
  return false;
}

void expect_same_save(const Config& c, const Config& at_rest) {
  {
    const SlowFlush slow(of_weights, "2");
    ChildRun child(c);
    ASSERT_EQ(child.wait(), 0) << child.output();
  }
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json"}) {
    const std::string name = fmt::format("/checkpoint-{}/{}", save_step, file);
    EXPECT_TRUE(test::file_text(c.output.dir + name) == test::file_text(at_rest.output.dir + name)) << name;
  }
}

class Versions : public ::testing::TestWithParam<u32> {
 protected:
  void SetUp() override {
    if (under_sanitizer()) GTEST_SKIP() << "SKIPPED: a sanitizer's library must be the first that is loaded";
  }
};

// Regression: with two versions, a kill loses every step since the save began.
TEST_P(Versions, ThreeKeepTheStepsOfAKillInTheMiddleOfASave) {
  const TrainDir dir;
  const Config c = saving_config(dir, GetParam());
  constexpr u64 logged = save_step + 5;
  {
    const SlowFlush slow(of_weights, "60");
    ChildRun child(c);
    ASSERT_TRUE(child.wait_for_steps(logged)) << child.output();
    ASSERT_EQ(child.kill_now(), 128 + SIGKILL) << child.output();
  }
  ASSERT_TRUE(is_being_saved(c));
  const auto found = read_state_file(swap_directory(c) + "/" + swap_file_name);
  ASSERT_TRUE(found && *found);
  const u64 committed = (*found)->commit.step;
  if (GetParam() == 2)
    EXPECT_EQ(committed, save_step);
  else
    EXPECT_GE(committed + 2, logged);
  const auto report = test::run(c, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->resumed_from_step, committed);
  EXPECT_EQ(test::numbers_of(*report), test::train_numbers(saving_config(dir, 1, "undisturbed")));
}

// Updates that speculate return to the last commit at each step that had to be clipped, with the save going
// on.
TEST_P(Versions, KeepWhatASaveReadsWhileTheRunTrainsOn) {
  const TrainDir dir;
  const Config at_rest = saving_config(dir, 1, "at_rest");
  ASSERT_TRUE(test::run(at_rest));
  for (const SpeculatePolicy speculate : {SpeculatePolicy::off, SpeculatePolicy::on}) {
    Config c = saving_config(dir, GetParam(), speculate == SpeculatePolicy::on ? "speculates" : "waits");
    SCOPED_TRACE(c.output.dir);
    c.train.speculate = speculate;
    expect_same_save(c, at_rest);
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheState, Versions, ::testing::Values(2u, 3u));

}  // namespace tidepool::background_save_test
