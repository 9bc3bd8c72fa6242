// Arenas, their ledger, and the limits of the machine.
#include <unistd.h>

#include <fstream>

#include "io/arena.h"
#include "io/memory_limits.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::memory_test {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

u64 resident_bytes() {
  std::ifstream in("/proc/self/statm");
  u64 size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<u64>(sysconf(_SC_PAGESIZE));
}

TEST(Arena, IsExactAlignedAndPresent) {
  constexpr u64 bytes = 64 * mib + 3 * frame_alignment;
  u64 before = resident_bytes();
  ArenaLedger ledger;
  auto arena = Arena::create({.name = "host", .bytes = Bytes{bytes}, .ledger = &ledger});
  ASSERT_TRUE(arena) << arena.error().message;
  u64 grown = resident_bytes() - before;
  EXPECT_GE(grown, bytes - mib);  // counters of resident pages are kept per CPU, and lag
  EXPECT_LE(grown, bytes + 8 * mib);
  EXPECT_EQ((*arena)->memory().size(), bytes);
  EXPECT_EQ(reinterpret_cast<u64>((*arena)->memory().data()) % (2 * mib), 0u);
  EXPECT_TRUE(contains((*arena)->describe(), "host: 64.01 MiB")) << (*arena)->describe();
  EXPECT_EQ(ledger.now(), Bytes{bytes});
  arena->reset();
  EXPECT_EQ(ledger.now(), Bytes{0});
  EXPECT_EQ(ledger.high_water(), Bytes{bytes});
}

TEST(Arena, PoisonShowsUnwrittenFrames) {
  auto arena = Arena::create({.name = "device 0", .bytes = Bytes{4 * mib}, .poison = true});
  ASSERT_TRUE(arena);
  for (u64 at : {u64{0}, 2 * mib + 17, 4 * mib - 1}) EXPECT_EQ(*(*arena)->at(at), arena_poison);
}

TEST(Arena, PrefaultsOnThePoolToo) {
  auto pool = create_core_pool(2, Bytes{4096});
  ASSERT_TRUE(pool);
  auto arena =
      Arena::create({.name = "host", .bytes = Bytes{100 * mib}, .poison = true, .pool = pool->get()});
  ASSERT_TRUE(arena);
  EXPECT_EQ(*(*arena)->at(100 * mib - 1), arena_poison);
}

TEST(Arena, RefusesMoreThanTheMachineHas) {
  auto arena = Arena::create({.name = "host", .bytes = Bytes{u64{1} << 50}});
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.error().kind, ErrorKind::does_not_fit);
  EXPECT_TRUE(contains(arena.error().message, "memory.host")) << arena.error().message;
}

TEST(Ledger, CountsByNameAndInAll) {
  ArenaLedger ledger;
  ledger.take("host", Bytes{100});
  ledger.take("device 0", Bytes{50});
  ledger.give_back("host", Bytes{100});
  Bytes mark = ledger.taken_ever();
  EXPECT_EQ(ledger.taken_since(mark), Bytes{0});
  ledger.take("host", Bytes{30});
  EXPECT_EQ(ledger.taken_since(mark), Bytes{30});
  EXPECT_EQ(ledger.now(), Bytes{80});
  EXPECT_EQ(ledger.high_water(), Bytes{150});
  auto entries = ledger.entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "host");
  EXPECT_EQ(entries[0].high_water, Bytes{100});
}

// A machine laid out in files.
class MemoryLimitsTest : public testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) {
    std::filesystem::path path(dir_.path() + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void put_v2(const std::string& cgroup) {
    put("/proc/self/mountinfo",
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/proc/self/cgroup", "0::" + cgroup + "\n");
  }
  test::ScratchDir dir_;
};

TEST_F(MemoryLimitsTest, TheTightestGroupOnTheWayUpBinds) {
  put_v2("/user.slice/job.scope");
  put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
  put("/sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
  put("/proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:   4194304 kB\n");
  MemoryLimits limits = read_memory_limits(dir_.path());
  ASSERT_TRUE(limits.cgroup);
  EXPECT_EQ(*limits.cgroup, Bytes{gib});
  EXPECT_EQ(limits.cgroup_file, dir_.path() + "/sys/fs/cgroup/user.slice/memory.max");
  EXPECT_EQ(limits.total, Bytes{8 * gib});
  EXPECT_EQ(limits.available, Bytes{4 * gib});
}

TEST_F(MemoryLimitsTest, ReadsCgroupVersionOneInAContainer) {
  put("/proc/self/mountinfo",
      "41 32 0:30 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "42 32 0:31 /docker/abc /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n");
  put("/proc/self/cgroup", "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  MemoryLimits limits = read_memory_limits(dir_.path());
  ASSERT_TRUE(limits.cgroup);
  EXPECT_EQ(*limits.cgroup, Bytes{2 * gib});
}

TEST_F(MemoryLimitsTest, WithoutALimitNothingIsRefused) {
  put_v2("/");
  EXPECT_FALSE(read_memory_limits(dir_.path()).cgroup);
  put("/proc/self/mountinfo", "42 32 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  put("/proc/self/cgroup", "4:memory:/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(read_memory_limits(dir_.path()).cgroup);
}

TEST(CheckMemory, NamesTheLimitAndTheChange) {
  MemoryLimits limits{.cgroup = Bytes{gib},
                      .cgroup_file = "/sys/fs/cgroup/memory.max",
                      .total = Bytes{8 * gib},
                      .available = Bytes{4 * gib}};
  EXPECT_TRUE(check_memory(limits, Bytes{gib}));
  auto cgroup = check_memory(limits, Bytes{3 * gib});
  ASSERT_FALSE(cgroup);
  EXPECT_EQ(cgroup.error().kind, ErrorKind::does_not_fit);
  EXPECT_TRUE(contains(cgroup.error().message,
                       "cgroup limit 1.00 GiB (/sys/fs/cgroup/memory.max) is below the 3.00 GiB"))
      << cgroup.error().message;
  EXPECT_TRUE(contains(cgroup.error().message, "by 2.00 GiB")) << cgroup.error().message;
  limits.cgroup.reset();
  auto machine = check_memory(limits, Bytes{5 * gib});
  ASSERT_FALSE(machine);
  EXPECT_TRUE(contains(machine.error().message, "4.00 GiB of memory available")) << machine.error().message;
}

// A container's limit applies to all its processes: budgets of the same size would meet the OOM killer.
TEST_F(MemoryLimitsTest, CountsMemoryInUseAndTheProcessItself) {
  put_v2("/job");
  put("/sys/fs/cgroup/job/memory.max", "104857600\n");
  put("/sys/fs/cgroup/job/memory.stat",
      "anon 20971520\nfile 73400320\nkernel 9437184\nshmem 0\nslab_reclaimable 8388608\n");
  const MemoryLimits limits = read_memory_limits(dir_.path());
  EXPECT_EQ(limits.cgroup_used, Bytes{21 * mib});
  EXPECT_TRUE(check_memory(limits, Bytes{64 * mib}, Bytes{15 * mib}));
  const auto refused = check_memory(limits, Bytes{80 * mib}, Bytes{15 * mib});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(
      contains(refused.error().message,
               "80.00 MiB of memory asked for and 15.00 MiB that the process takes beside the budgets on "
               "top of 21.00 MiB in use: raise it by 16.00 MiB"))
      << refused.error().message;
}

TEST(ExplainMemlock, SpeaksOnlyWhenSomethingIsLost) {
  EXPECT_EQ(explain_memlock({}, Bytes{gib}), "");
  EXPECT_EQ(explain_memlock({.locked = Bytes{2 * gib}}, Bytes{gib}), "");
  EXPECT_TRUE(contains(explain_memlock({.locked = Bytes{8 * mib}}, Bytes{gib}), "ulimit -l"));
}

}  // namespace tidepool::memory_test
