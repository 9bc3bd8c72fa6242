// memory.disk: a size, nothing, or the free space of the swap directory's file system.
#include "fit/disk_budget.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "fit/job.h"
#include "fit/plan_run.h"
#include "io/swap_file.h"
#include "planner/advice/change_text.h"
#include "planner/planner.h"
#include "tests/support/asked_plan.h"
#include "tests/support/train_fixture.h"

namespace tidepool::disk_budget_test {

namespace fs = std::filesystem;
using test::TrainDir;
using ::testing::HasSubstr;

// A file system that exists and has no free space.
constexpr const char* full_directory = "/proc/tidepool";

Config disk_config(const TrainDir& dir, Bytes disk) {
  Config c = test::small_config(dir);
  c.memory.home = HomePolicy::disk;
  c.memory.budgets.disk = disk;
  return c;
}

TEST(DiskBudget, AutoIsTheFreeSpaceOfTheSwapDirectorysFileSystem) {
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

// A killed run's swap file is cleared before ours is made, so its resume must not find the disk too small.
TEST(DiskBudget, LitterOfADeadJobCountsAsFree) {
  const TrainDir dir;
  fs::create_directory(dir / "swap");
  // A few tries, because other processes write to the same disk; without the rule each try would be 64 MiB
  // off.
  double off = 0;
  for (int i = 0; i < 5; ++i) {
    fs::remove(dir / "swap/tidepool.swap");
    const Bytes before = swap_space(dir / "swap").value();
    std::ofstream(dir / "swap/tidepool.swap") << std::string(64 * mib, 'x');
    const Bytes after = swap_space(dir / "swap").value();
    off = std::abs(static_cast<double>(after.value) - static_cast<double>(before.value));
    if (off < 32.0 * mib) break;
  }
  EXPECT_LT(off, 32.0 * mib);
}

// The default budget on a full disk: no config key helps, so the error is not about budgets.
TEST(DiskBudget, AFullDiskIsAnIoFaultThatNamesIt) {
  const TrainDir dir;
  const Config config = disk_config(dir, disk_auto);
  const Job job = make_job(config).value();
  const PlanOptions full = plan_options(config, Bytes{0});
  const Result<Plan> plan = make_plan(job.graph, full);
  ASSERT_FALSE(plan);
  const Error error = explain_disk(job, full, plan.error());
  EXPECT_EQ(error.kind, ErrorKind::io);
  EXPECT_THAT(error.message, HasSubstr(swap_directory(config)));
  EXPECT_THAT(error.message, HasSubstr("has 0 B free"));
  EXPECT_THAT(error.message, HasSubstr("set output.dir, or only memory.swap_dir, to a directory"));
  EXPECT_THAT(error.message, ::testing::Not(HasSubstr("memory.disk=")));
}

TEST(DiskBudget, OtherShortBudgetsAreNamedBesideTheDisk) {
  const TrainDir dir;
  Config config = disk_config(dir, disk_auto);
  config.memory.budgets.device = Bytes{64 * kib};
  const Job job = make_job(config).value();
  const PlanOptions full = plan_options(config, Bytes{0});
  const Error error = explain_disk(job, full, make_plan(job.graph, full).error());
  EXPECT_EQ(error.kind, ErrorKind::does_not_fit);
  EXPECT_THAT(error.message, HasSubstr("device needs"));
  EXPECT_THAT(error.message, HasSubstr("has 0 B free, which is also too little"));
  EXPECT_THAT(error.message, ::testing::Not(HasSubstr("set memory.")));  // not enough by itself
  EXPECT_TRUE(error.changes.empty());
}

TEST(DiskBudget, AnErrorThatOnlyNamesTheDiskIsLeftAsItIs) {
  const TrainDir dir;
  const Config config = disk_config(dir, disk_auto);
  const Error named{ErrorKind::does_not_fit, "memory.disk=9.00 TiB is more than box has"};
  const Error error = explain_disk(make_job(config).value(), plan_options(config, Bytes{0}), named);
  EXPECT_EQ(error.kind, ErrorKind::does_not_fit);
  EXPECT_EQ(error.message, named.message);
}

TEST(DiskBudget, TrainingUnderProcIsAnIoFault) {
  const TrainDir dir;
  Config swap = disk_config(dir, disk_auto), output = swap, both = disk_config(dir, Bytes{64 * mib});
  swap.memory.swap_dir = full_directory;
  output.output.dir = full_directory;
  both.output.dir = full_directory;
  for (const Config& config : {swap, output, both}) {
    const auto report = test::run(config);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::io) << report.error().message;
    EXPECT_THAT(report.error().message, HasSubstr(full_directory));
  }
}

TEST(DiskBudget, AutoTrainsLikeANumber) {
  const TrainDir dir;
  Config automatic = disk_config(dir, disk_auto), number = disk_config(dir, Bytes{64 * mib});
  number.output.dir = dir / "number";
  EXPECT_EQ(test::train_numbers(automatic), test::train_numbers(number));
}

TEST(DiskBudget, ZeroIsNoDisk) {
  const TrainDir dir;
  Config config = disk_config(dir, Bytes{0});
  const auto report = test::run(config);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::does_not_fit);
  config.memory.home = HomePolicy::automatic;  // there is room in memory
  const auto mended = test::run(config);
  ASSERT_TRUE(mended) << mended.error().message;
  EXPECT_EQ(mended->tiers[2].planned_peak, Bytes{0});
}

TEST(DiskBudget, PlanTextDoesNotDependOnFreeSpace) {
  const TrainDir dir;
  const Config config = disk_config(dir, disk_auto);
  const Job job = make_job(config).value();
  const auto text = [&](Bytes free) {
    return plan_text(config, make_plan(job.graph, plan_options(config, free)).value());
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

}  // namespace tidepool::disk_budget_test
