// A disk at work takes no heap memory: what it needs, it took when it was made.
//
// Allocations of all threads are counted here, so nothing else may run meanwhile.
#include <atomic>
#include <cstdlib>
#include <new>

#include "io/simulated_disk.h"
#include "io/swap_file.h"
#include "tests/support/disk_fixture.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<unsigned> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = alignment == 0
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

// Not inlined: the compiler would then see malloc paired with operator delete, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes, 0); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t a) {
  return counted(bytes, static_cast<std::size_t>(a));
}
// std::stable_sort takes its buffer with this one and gives it back with the plain delete.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 0); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tidepool {
namespace {

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

unsigned allocations_of_a_round(Disk& disk, Arena& arena, std::atomic<u64>& completed) {
  round(disk, arena, completed);
  allocations = 0;
  counting = true;
  round(disk, arena, completed);
  counting = false;
  return allocations;
}

TEST(DiskAllocationCanary, TheCounterCounts) {
  allocations = 0;
  counting = true;
  ::operator delete(::operator new(8));
  counting = false;
  EXPECT_EQ(allocations, 1u);
}

class DiskAllocation : public testing::TestWithParam<DiskBackend> {};

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
  EXPECT_EQ(allocations_of_a_round(**disk, *arena, completed), 0u);
}
INSTANTIATE_TEST_SUITE_P(All, DiskAllocation, testing::Values(DiskBackend::io_uring, DiskBackend::threads),
                         [](const auto& info) {
                           return info.param == DiskBackend::threads ? "threads" : "io_uring";
                         });

}  // namespace
}  // namespace tidepool
