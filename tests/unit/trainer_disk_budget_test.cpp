// memory.disk: a size, nothing, or what the swap directory's file system has free.
#include <gmock/gmock.h>

#include <filesystem>

#include "io/swap_file.h"
#include "planner/planner.h"
#include "tests/support/train_fixture.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TrainDir;

// A file system that exists and has nothing free.
constexpr const char* full_directory = "/proc/tidepool";

Config disk_config(const TrainDir& dir, Bytes disk) {
  Config c = testing::small_config(dir);
  c.memory.home = HomePolicy::disk;
  c.memory.budgets.disk = disk;
  return c;
}

TEST(DiskBudget, AutoIsWhatTheSwapDirectorysFileSystemHasFree) {
  const TrainDir dir;
  Config config = disk_config(dir, disk_auto);
  config.memory.swap_dir = dir / "not/yet/there";
  const double free = static_cast<double>(fs::space(fs::path(dir.data()).parent_path()).available);
  const auto budget = disk_budget(config);
  ASSERT_TRUE(budget) << budget.error().message;
  EXPECT_NEAR(static_cast<double>(budget->value), free, 0.05 * free);
  config.memory.swap_dir = full_directory;
  EXPECT_EQ(*disk_budget(config), Bytes{0});
  config.memory.budgets.disk = Bytes{5 * mib};
  EXPECT_EQ(*disk_budget(config), Bytes{5 * mib});
}

// A killed run's swap file is cleared before ours is made: its resume must not find the disk too small.
TEST(DiskBudget, WhatADeadJobLeftCountsAsFree) {
  const TrainDir dir;
  fs::create_directory(dir / "swap");
  const Bytes before = swap_space(dir / "swap").value();
  std::ofstream(dir / "swap/tidepool.swap") << std::string(64 * mib, 'x');
  const Bytes after = swap_space(dir / "swap").value();
  EXPECT_NEAR(static_cast<double>(after.value), static_cast<double>(before.value), 32.0 * mib);
}

TEST(DiskBudget, TrainingOnAFullDiskDoesNotFit) {
  const TrainDir dir;
  Config config = disk_config(dir, disk_auto);
  config.memory.swap_dir = full_directory;
  const auto report = testing::run(config);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::does_not_fit) << report.error().message;
  EXPECT_THAT(report.error().message, HasSubstr("disk needs"));
}

TEST(DiskBudget, ZeroIsNoDisk) {
  const TrainDir dir;
  Config config = disk_config(dir, Bytes{0});
  const auto report = testing::run(config);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::does_not_fit);
  config.memory.home = HomePolicy::automatic;  // there is room in memory
  const auto mended = testing::run(config);
  ASSERT_TRUE(mended) << mended.error().message;
  EXPECT_EQ(mended->tiers[2].planned_peak, Bytes{0});
}

TEST(DiskBudget, PlanTextDoesNotDependOnWhatIsFree) {
  const TrainDir dir;
  const Config config = disk_config(dir, disk_auto);
  const ModelGraph graph = make_graph(config).value();
  const auto text = [&](Bytes free) {
    return plan_text(config, make_plan(graph, plan_options(config, free)).value());
  };
  EXPECT_EQ(text(Bytes{gib}), text(Bytes{7 * gib}));
  EXPECT_THAT(text(Bytes{gib}), HasSubstr("tier disk budget auto peak"));
}

TEST(SwapDirectory, IsBesideTheRunUnlessGiven) {
  Config config;
  config.output.dir = "runs/x";
  EXPECT_EQ(swap_directory(config), "runs/x/swap");
  config.memory.swap_dir = "/mnt/fast";
  EXPECT_EQ(swap_directory(config), "/mnt/fast");
}

}  // namespace
}  // namespace tidepool
