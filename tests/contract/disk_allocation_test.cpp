// A working disk takes no heap memory: it takes all it needs at creation.
//
// Allocations of all threads are counted here, so nothing else may run meanwhile.
#include <atomic>
#include <cstdlib>
#include <new>

#include "io/simulated_disk.h"
#include "io/swap_file.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::disk_allocation_test {

constexpr u64 file_bytes = 16 * mib;
constexpr u64 request_bytes = 2 * mib;

// One round: everything written, then everything read.
void round(Disk& disk, Arena& arena, std::atomic<u64>& completed) {
  for (DiskOp op : {DiskOp::write, DiskOp::read}) {
    completed = 0;
    for (u64 at = 0; at < file_bytes; at += request_bytes) {
      disk.submit({op, at, arena.memory().subspan(at, request_bytes), at});
    }
    for (u64 n = completed; n < file_bytes / request_bytes; n = completed) completed.wait(n);
  }
}

std::string allocations_of_a_round(Disk& disk, Arena& arena, std::atomic<u64>& completed) {
  round(disk, arena, completed);
  test::CountAllocations allocations;
  round(disk, arena, completed);
  allocations.stop();
  return allocations.who();
}

TEST(DiskAllocationCanary, TheCounterCounts) {
  test::CountAllocations allocations;
  ::operator delete(::operator new(8));
  allocations.stop();
  EXPECT_EQ(allocations.count(), 1u);
  EXPECT_NE(allocations.who().find("8 bytes"), std::string::npos);
}

class DiskAllocation : public ::testing::TestWithParam<DiskBackend> {};

TEST_P(DiskAllocation, ASteadyRoundTakesNone) {
  test::ScratchDir dir;
  auto arena = test::make_arena(file_bytes);
  auto file = SwapFile::create({.dir = dir / "swap", .bytes = Bytes{file_bytes}});
  if (!file) GTEST_SKIP() << "SKIPPED: " << file.error().message;
  std::atomic<u64> completed = 0;
  auto sink = [&](const DiskCompletion& c) {
    if (!c.ok) std::abort();
    ++completed;
    completed.notify_all();
  };
  auto disk = create_disk(**file, GetParam(), {.arenas = {arena->memory()}}, sink);
  if (!disk) GTEST_SKIP() << "SKIPPED: " << disk.error().message;
  EXPECT_EQ(allocations_of_a_round(**disk, *arena, completed), "");
}
INSTANTIATE_TEST_SUITE_P(All, DiskAllocation, ::testing::Values(DiskBackend::io_uring, DiskBackend::threads),
                         [](const auto& info) {
                           return info.param == DiskBackend::threads ? "threads" : "io_uring";
                         });

}  // namespace tidepool::disk_allocation_test
