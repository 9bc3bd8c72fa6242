// A disk that never answers: the run says so and ends, although requests are in flight. A disk that answers
// at the second try: the run continues and counts the retry.
#include <gmock/gmock.h>

#include <filesystem>

#include "fit/job.h"
#include "planner/planner.h"
#include "tests/support/asked_plan.h"
#include "tests/support/stuck_disk.h"
#include "tests/support/train_fixture.h"

namespace tidepool::hanging_disk_test {

using test::StuckDisk;
using test::TrainDir;
using ::testing::ExitedWithCode;

constexpr Bytes disk_bytes{64 * mib};
constexpr Nanos short_patience{4'000'000'000};  // longer than a busy machine takes for a request

Config streaming_config(const TrainDir& dir) {
  Config c = test::small_config(dir);
  c.memory.home = HomePolicy::disk;
  c.memory.chunk_size = Bytes{40 * kib};
  return c;
}

Result<RunReport> run_on(const Config& config, OpenDisk disk) {
  return train_model({.config = config,
                      .command = "test",
                      .quiet = true,
                      .open_disk = std::move(disk),
                      .watchdog_least = short_patience});
}

OpenDisk stuck_after(u64 answers) {
  return [answers](DiskSink sink) -> Result<std::unique_ptr<Disk>> {
    return std::unique_ptr<Disk>(std::make_unique<StuckDisk>(disk_bytes, answers, std::move(sink)));
  };
}

// RETURNS: number of disk requests before the first step: parameters and masters are written, moments are
// cleared.
u64 requests_of_init(const Config& config) {
  const Job job = make_job(config).value();
  const Plan plan = make_plan(job.graph, plan_options(config, config.memory.budgets.disk)).value();
  u64 requests = 0;
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Kind kind = plan.chunks[id].kind;
    const bool moment = plan.state_slots.is_optimizer_slot(kind);
    if (plan.homes[id].tier == Tier::disk && plan.homes[id].bytes.value > 0 && !moment) ++requests;
  }
  return requests;
}

class HangingDisk : public ::testing::Test {
 protected:
  // Set because the run has threads. Must precede dir_, which depends on whether this is the child.
  static void SetUpTestSuite() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  const TrainDir dir_;
};

TEST_F(HangingDisk, InTrainingEndsTheRunWithItsLanes) {
  const Config config = streaming_config(dir_);
  EXPECT_EXIT((void)run_on(config, stuck_after(requests_of_init(config) + 20)), ExitedWithCode(1),
              "no op has completed for longer than the watchdog allows.*disk_read");
}

TEST_F(HangingDisk, AtRestEndsTheRunAndNamesTheChunk) {
  const Config config = streaming_config(dir_);
  EXPECT_EXIT((void)run_on(config, stuck_after(requests_of_init(config) / 2)), ExitedWithCode(6),
              "of h[.][0-9] cut [0-9]+: the disk has not answered for 4 s");
  // The files of the ended run lie in this test's directory, which the test removes.
  const auto entries = std::filesystem::recursive_directory_iterator(dir_ / "");
  EXPECT_TRUE(
      std::any_of(begin(entries), end(entries), [](const auto& e) { return e.path().filename() == "run"; }));
}

TEST(FlakyDisk, SecondTriesAreReported) {
  const TrainDir dir;
  const Config config = streaming_config(dir);
  SimulatedDisk* disk = nullptr;
  std::array<u64, disk_fault_count> struck{};
  DiskFaults faults{.seed = 3};
  faults[DiskFault::interrupted] = faults[DiskFault::again] = faults[DiskFault::short_transfer] = 0.02;
  const auto report = run_on(config, [&](DiskSink sink) -> Result<std::unique_ptr<Disk>> {
    auto made = create_simulated_disk(disk_bytes, faults, {}, [&, sink](const DiskCompletion& completion) {
      struck = disk->struck();
      sink(completion);
    });
    disk = made.get();
    return std::unique_ptr<Disk>(std::move(made));
  });
  ASSERT_TRUE(report) << report.error().message;
  u64 all = 0;
  for (const u64 n : struck) all += n;
  EXPECT_GT(all, 10u);
  EXPECT_EQ(report->io_retries, all);
}

}  // namespace tidepool::hanging_disk_test
