// Items 8, 12 and 21: a run whose checkpoint cannot be written, that is asked to save, or whose directory
// disappears.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "io/swap_file.h"
#include "report/run_report.h"
#include "run/outputs/signals.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/small_disk.h"
#include "tests/support/train_fixture.h"

namespace tidepool::save_fault_test {

namespace fs = std::filesystem;
using test::Child;
using test::ChildRun;
using test::file_text;
using test::Numbers;
using test::numbers_of;
using test::SmallDisk;
using test::TrainDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SaveFault : public ::testing::Test {
 protected:
  // Checkpoints of 2 MiB each.
  Config config(const std::string& run = "run", u64 steps = 25) const {
    Config c = test::small_config(dir_, run);
    c.train.max_steps = steps;
    c.output.save_steps = 5;
    c.output.last_save_minutes = 0.01;
    return c;
  }
  Numbers undisturbed(Config c) const {
    c.output.dir = dir_ / "whole";
    c.memory.swap_dir.clear();
    c.output.save_steps = 0;
    return test::train_numbers(c);
  }
  static void expect_ends_as(const Config& c, const Numbers& numbers) {
    const auto report = read_report(c.output.dir);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), numbers);
  }
  static void expect_resumes(const Config& c, const std::string& resume, const Numbers& numbers) {
    const auto report = test::run(c, {.resume = resume});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), numbers);
  }
  static bool wait_for_words(Child& child, const std::string& words) {
    while (child.output().find(words) == std::string::npos) {
      if (child.ended()) return child.output().find(words) != std::string::npos;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  const TrainDir dir_;
};

#define NEEDS_MOUNT(disk) \
  if (!disk.mounted()) GTEST_SKIP() << "SKIPPED: mounting a small file system needs root and CAP_SYS_ADMIN"

// A full disk.
TEST_F(SaveFault, AFullDiskDeletesTheOldestCheckpointBeforeTheSave) {
  SmallDisk disk(dir_ / "small", "5m");  // room for two; a third one needs space until it is complete
  NEEDS_MOUNT(disk);
  const Config c = config("small/run");
  ChildRun child(c);
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("deleted " + c.output.dir + "/checkpoint-5, the next to be deleted"));
  EXPECT_THAT(child.output(), Not(HasSubstr("was not written")));
  EXPECT_TRUE(fs::exists(c.output.dir + "/checkpoint-20"));
  expect_ends_as(c, undisturbed(c));
}

// A failed save.
TEST_F(SaveFault, AFailedSaveKeepsTrainingAndTheLastOneWaits) {
  SmallDisk disk(dir_ / "small", "3500k");  // room for one, the only good one
  NEEDS_MOUNT(disk);
  Config c = config("small/run");
  c.output.last_save_minutes = 5;
  ChildRun child(c);
  ASSERT_TRUE(wait_for_words(child, "This was the last save")) << child.output();
  EXPECT_THAT(child.output(),
              AllOf(HasSubstr("WARNING: checkpoint of step 10 was not written, older checkpoints are "
                              "untouched"),
                    HasSubstr("No space left on device"), HasSubstr("Training continues"),
                    HasSubstr("is tried again for")));
  EXPECT_TRUE(fs::exists(c.output.dir + "/checkpoint-5"));
  disk.enlarge();
  EXPECT_EQ(child.wait(), 0) << child.output();
  expect_ends_as(c, undisturbed(c));
}

TEST_F(SaveFault, TheLastSaveTimesOutAndListsTheCheckpoints) {
  SmallDisk disk(dir_ / "small", "3500k");
  NEEDS_MOUNT(disk);
  const Config c = config("small/run");
  ChildRun child(c);
  EXPECT_EQ(child.wait(), 6) << child.output();
  EXPECT_THAT(child.output(),
              AllOf(HasSubstr("Steps up to 25 are not saved"),
                    HasSubstr("resume with --resume auto from " + c.output.dir + "/checkpoint-5")));
  disk.enlarge();
  expect_resumes(c, "auto", undisturbed(c));
}

TEST_F(SaveFault, TheLastSaveGoesToAnotherDiskIfThereIsOne) {
  SmallDisk disk(dir_ / "small", "3500k");
  NEEDS_MOUNT(disk);
  Config c = config("small/run");
  c.memory.home = HomePolicy::disk;
  c.memory.swap_dir = dir_ / "swap";
  ChildRun child(c);
  EXPECT_EQ(child.wait(), 6) << child.output();
  const std::string rescued = c.memory.swap_dir + "/rescued/checkpoint-25";
  EXPECT_THAT(child.output(), HasSubstr("resume with --resume " + rescued));
  disk.enlarge();
  expect_resumes(c, rescued, undisturbed(c));
}

// save_steps=0 is not "never".
TEST_F(SaveFault, SavesByTimeAndKeepsItsBits) {
  Config c = config("run", 8);
  EXPECT_EQ(Config{}.output.save_minutes, 30);
  const Numbers numbers = undisturbed(c);
  c.output.save_steps = 0;
  c.output.save_minutes = 1e-9;  // 60 ns: always due, however soon the first step is asked
  c.output.save_total_limit = 100;
  EXPECT_EQ(test::train_numbers(c), numbers);
  for (u64 step = 1; step <= 8; ++step)
    EXPECT_TRUE(fs::exists(fmt::format("{}/checkpoint-{}", c.output.dir, step))) << step;
}

// A save on request.
TEST_F(SaveFault, Usr1SavesNowAndTrainingContinues) {
  Config c = config("run", 150);
  c.output.save_steps = 0;
  const Numbers numbers = undisturbed(c);
  ChildRun child(c);
  ASSERT_TRUE(child.wait_for_steps(3)) << child.output();
  child.signal(SIGUSR1);
  ASSERT_TRUE(wait_for_words(child, "saved " + c.output.dir + "/checkpoint-")) << child.output();
  EXPECT_FALSE(fs::exists(c.output.dir + "/checkpoint-150"));
  EXPECT_THAT(child.output(), HasSubstr("tidepool: SIGUSR1: saving after this step"));
  EXPECT_EQ(child.wait(), 0) << child.output();
  expect_ends_as(c, numbers);
}

// A renamed directory.
TEST_F(SaveFault, ARunDirectoryRenamedUnderALiveRunIsNoticed) {
  Config c = config("run", 100'000);
  c.output.save_steps = 0;
  ChildRun child(c);
  ASSERT_TRUE(child.wait_for_steps(3)) << child.output();
  fs::rename(c.output.dir, dir_ / "elsewhere");
  EXPECT_EQ(child.wait(), 6) << child.output();
  EXPECT_THAT(child.output(),
              AllOf(HasSubstr("was renamed while the run used it: its path is now " + dir_ / "elsewhere"),
                    HasSubstr("is saved in " + dir_ / "elsewhere/checkpoint-")));
  EXPECT_FALSE(fs::exists(c.output.dir));
  c.output.dir = dir_ / "elsewhere";
  c.output.save_steps = 2;
  c.train.max_steps = 1;
  EXPECT_TRUE(test::run(c, {.resume = "auto"}));  // a checkpoint of a later step exists
}

TEST_F(SaveFault, ARunDirectoryRemovedUnderALiveRunIsNoticed) {
  Config c = config("run", 100'000);
  c.output.save_steps = 0;
  ChildRun child(c);
  ASSERT_TRUE(child.wait_for_steps(3)) << child.output();
  fs::remove_all(c.output.dir);
  EXPECT_EQ(child.wait(), 6) << child.output();
  EXPECT_THAT(child.output(), AllOf(HasSubstr("was removed while the run used it"),
                                    HasSubstr("is saved in " + c.output.dir + "/checkpoint-")));
  c.train.max_steps = 1;
  EXPECT_TRUE(test::run(c, {.resume = "auto"}));
}

TEST_F(SaveFault, SignalsDuringTheEndLeaveNoLitter) {
  Config c = config("run", 100'000);
  c.memory.home = HomePolicy::disk;
  c.memory.chunk_size = Bytes{40 * kib};
  c.output.save_steps = 0;
  for (u32 tries = 0; tries < 10; ++tries) {
    fs::remove_all(c.output.dir);
    ChildRun child(c);
    ASSERT_TRUE(child.wait_for_steps(1)) << child.output();
    child.signal(SIGINT);
    ASSERT_TRUE(wait_for_words(child, "again to stop at once")) << child.output();
    child.suspend(same_request * 11 / 10);
    ASSERT_TRUE(wait_for_words(child, "saved ")) << child.output();
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * tries));
    child.signal(SIGINT);  // a third signal would end the clean-up too
    EXPECT_THAT(child.wait(), ::testing::AnyOf(75, 130)) << child.output();
    EXPECT_FALSE(fs::exists(c.output.dir + "/tidepool.run")) << child.output();
    // The commit of the state stays until the checkpoint is known to be whole; nothing else does.
    if (!fs::exists(c.output.dir + "/swap")) continue;
    for (const auto& left : fs::directory_iterator(c.output.dir + "/swap")) {
      EXPECT_EQ(left.path().filename(), "tidepool.swap") << child.output();
      const auto found = read_state_file(left.path());
      EXPECT_TRUE(found && *found) << (found ? "no state" : found.error().message);
    }
  }
}

TEST_F(SaveFault, ResumeAutoWithoutARunIsNoted) {
  ChildRun child(config("run", 1), "auto");
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("WARNING: --resume auto: " + dir_ / "run" +
                                        " holds no checkpoint, so "
                                        "training starts at step 1"));
}

// Unsuitable run directories.
TEST_F(SaveFault, TheRootAndTheModelsDirectoryAreNoRunDirectory) {
  const std::string model = test::made_base(dir_, Family::gpt2);
  Config c = config();
  c.model_directory = model;
  for (const std::string& dir : {std::string("/"), std::string("//"), model, model + "/../checkpoint-1/"}) {
    c.output.dir = dir;
    const auto report = test::run(c);
    ASSERT_FALSE(report) << dir;
    EXPECT_EQ(report.error().kind, ErrorKind::usage);
    EXPECT_THAT(report.error().message, AllOf(HasSubstr("output.dir: " + dir + " is the "),
                                              HasSubstr("name a directory for this run alone")));
  }
  c.output.dir = dir_ / "first";
  c.train.max_steps = 1;
  ASSERT_TRUE(test::run(c));
  c.output.dir += "/checkpoint-1/below/it";
  EXPECT_THAT(test::run(c).error().message, HasSubstr("is in the checkpoint "));
}

// A lost log does not end a training.
TEST_F(SaveFault, AFullDiskUnderTheLogsEndsNothing) {
  SmallDisk disk(dir_ / "small", "1m");
  NEEDS_MOUNT(disk);
  Config c = config("small/run", 300);
  c.output.save = false;
  std::ofstream(dir_ / "config.yaml") << to_yaml(c);
  Child child({"train", dir_ / "config.yaml"}, dir_ / "log");  // its log lies outside the small disk
  ASSERT_TRUE(wait_for_words(child, "step 3/300")) << child.output();
  std::ofstream(dir_ / "small/filler") << std::string(2 * mib, 'x');
  EXPECT_EQ(child.wait(), 6) << child.output();
  EXPECT_THAT(child.output(),
              AllOf(HasSubstr("WARNING: metrics.jsonl may lack lines from step"),
                    HasSubstr("Training continues"), HasSubstr("WARNING: metrics.jsonl lacks"),
                    HasSubstr("report.json: No space left on device"), HasSubstr("All steps are done")));
}

}  // namespace tidepool::save_fault_test
