#include "tidepool/core_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "machine/topology.h"

namespace tidepool::core_pool_test {

std::unique_ptr<CorePool> pool_of(u32 workers, u64 scratch = 256) {
  return create_core_pool(workers, Bytes{scratch}).value();
}

TEST(CorePool, RunsEveryTaskOnce) {
  for (u32 workers : {1u, 2u, 3u, 7u}) {
    auto pool = pool_of(workers);
    EXPECT_EQ(pool->workers(), workers);
    for (u32 count : {0u, 1u, 2u, 5u, 1000u}) {
      std::vector<std::atomic<u32>> hits(count);
      parallel_for(*pool, Priority::normal, count, [&](u32 task, u32 worker) {
        EXPECT_LT(worker, workers);
        hits[task].fetch_add(1);
      });
      for (auto& hit : hits) EXPECT_EQ(hit.load(), 1u);
    }
  }
}

TEST(CorePool, ZeroMeansTheCoresOfThisProcess) {
  auto topology = create_topology().value();
  EXPECT_GE(topology->cores(), topology->usable_cores());
  EXPECT_EQ(pool_of(0)->workers(), topology->usable_cores());
}

TEST(CorePool, ScratchIsAlignedAndOneTasksOwn) {
  auto pool = pool_of(3, 1000);
  EXPECT_GE(pool->scratch_bytes().value, 1000u);
  std::atomic<u32> torn{0};
  parallel_for(*pool, Priority::normal, 300, [&](u32 task, u32 worker) {
    std::byte* scratch = pool->scratch(worker);
    if (reinterpret_cast<std::uintptr_t>(scratch) % 64 != 0) ++torn;
    std::memset(scratch, static_cast<int>(task % 251), 1000);
    std::this_thread::yield();
    for (u32 i = 0; i < 1000; ++i)
      if (scratch[i] != static_cast<std::byte>(task % 251)) ++torn;
  });
  EXPECT_EQ(torn.load(), 0u);
}

TEST(CorePool, ManyCallersShareTheWorkers) {
  auto pool = pool_of(2);
  std::vector<std::thread> callers;
  std::atomic<u64> total{0};
  for (u32 caller = 0; caller < 6; ++caller)
    callers.emplace_back([&, caller] {
      for (u32 round = 0; round < 400; ++round) {
        u64 expected = 0;
        std::atomic<u64> sum{0};
        const u32 count = 1 + (round * 7 + caller) % 13;
        for (u32 i = 0; i < count; ++i) expected += i + 1;
        parallel_for(*pool, caller % 2 != 0 ? Priority::high : Priority::normal, count,
                     [&](u32 task, u32) { sum += task + 1; });
        EXPECT_EQ(sum.load(), expected);
        total += count;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_GT(total.load(), 0u);
}

// Writes of tasks are visible to the caller without further synchronisation.
TEST(CorePool, PlainWritesAreVisibleAfterRun) {
  auto pool = pool_of(3);
  std::vector<u32> values(500);
  for (u32 round = 1; round <= 200; ++round) {
    parallel_for(*pool, Priority::normal, 500, [&](u32 task, u32) { values[task] += task * round; });
    u64 sum = 0;
    for (u32 value : values) sum += value;
    EXPECT_EQ(sum, 500ull * 499 / 2 * round * (round + 1) / 2);
  }
}

TEST(CorePool, NeverMoreTasksAtOnceThanWorkers) {
  auto pool = pool_of(2);
  std::atomic<int> running{0}, most{0};
  auto busy = [&](u32, u32) {
    const int now = ++running;
    int seen = most.load();
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    --running;
  };
  std::vector<std::thread> callers;
  for (u32 i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (u32 round = 0; round < 20; ++round) parallel_for(*pool, Priority::normal, 8, busy);
    });
  for (auto& caller : callers) caller.join();
  EXPECT_LE(most.load(), 2);
}

// A job of high priority that arrives while a long job runs does not wait for its end.
TEST(CorePool, HighPriorityGoesFirst) {
  constexpr u32 tasks = 1 << 20;
  auto pool = pool_of(2);
  std::atomic<u32> done_normal{0};
  std::atomic<bool> started{false}, went_first{false};
  std::thread normal([&] {
    parallel_for(*pool, Priority::normal, tasks, [&](u32, u32) {
      started = true;
      // All tasks of the long job would take a quarter of an hour before the high one has its turn.
      if (!went_first) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done_normal;
    });
  });
  while (!started) std::this_thread::yield();
  parallel_for(*pool, Priority::high, 20, [](u32, u32) {});
  EXPECT_LT(done_normal.load(), tasks);
  went_first = true;
  normal.join();
  EXPECT_EQ(done_normal.load(), tasks);
}

TEST(CorePool, RefusesAbsurdThreads) {
  auto pool = create_core_pool(1'000'000, Bytes{0});
  ASSERT_FALSE(pool.has_value());
  EXPECT_EQ(pool.error().kind, ErrorKind::usage);
}

TEST(CorePoolDeathTest, RunFromATaskIsOurBug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        auto pool = pool_of(1);
        parallel_for(*pool, Priority::normal, 1,
                     [&](u32, u32) { parallel_for(*pool, Priority::normal, 1, [](u32, u32) {}); });
      },
      "in_task");
}

TEST(Topology, ReadsCgroupQuotas) {
  EXPECT_EQ(cpus_of_quota("max 100000"), none);
  EXPECT_EQ(cpus_of_quota("150000 100000"), 2u);
  EXPECT_EQ(cpus_of_quota("200000 100000"), 2u);
  EXPECT_EQ(cpus_of_quota("10000 100000"), 1u);
  EXPECT_EQ(cpus_of_quota(""), none);
  EXPECT_EQ(cpus_of_quota("1000"), none);
}

}  // namespace tidepool::core_pool_test
