// Tests how the disk code handles a faulty disk.
#include <cmath>

#include "io/simulated_disk.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::disk_fault_test {

using test::Completions;
using test::equal;
using test::fill_random;

constexpr u64 disk_bytes = 16 * mib;
constexpr u64 request_bytes = 512 * kib;
constexpr u64 requests = disk_bytes / request_bytes;
constexpr DiskOptions options{.queue_depth = 16, .piece = Bytes{64 * kib}};

class DiskFaultTest : public testing::Test {
 protected:
  void open(const DiskFaults& faults) {
    disk_ = create_simulated_disk(Bytes{disk_bytes}, faults, options, completions_.sink());
  }

  std::span<std::byte> source(u64 at, u64 bytes) { return arena_->memory().subspan(at, bytes); }
  std::span<std::byte> target(u64 at, u64 bytes) { return arena_->memory().subspan(disk_bytes + at, bytes); }

  std::vector<DiskCompletion> run(DiskOp op, u64 times = 1) {
    for (u64 t = 0; t < times; ++t) {
      for (u64 i = 0; i < requests; ++i) {
        u64 at = i * request_bytes;
        disk_->submit(
            {op, at, op == DiskOp::write ? source(at, request_bytes) : target(at, request_bytes), i});
      }
    }
    auto all = completions_.take(requests * times);
    std::ranges::sort(all, {}, &DiskCompletion::tag);
    return all;
  }
  void expect_ok(const std::vector<DiskCompletion>& all) {
    for (const DiskCompletion& c : all) EXPECT_TRUE(c.ok) << c.error.message;
  }
  u64 struck(DiskFault f) { return disk_->struck()[static_cast<u32>(f)]; }
  u64 wrong_requests() {
    u64 wrong = 0;
    for (u64 at = 0; at < disk_bytes; at += request_bytes) {
      if (!equal(source(at, request_bytes), target(at, request_bytes))) ++wrong;
    }
    return wrong;
  }

  std::unique_ptr<Arena> arena_ = test::make_arena(2 * disk_bytes);
  Completions completions_;
  std::unique_ptr<SimulatedDisk> disk_;
};

TEST_F(DiskFaultTest, TransientFaultsNeverShow) {
  fill_random(source(0, disk_bytes), 1);
  for (u64 seed = 0; seed < 5; ++seed) {
    DiskFaults faults{.seed = seed, .delay_us_max = 200};
    faults[DiskFault::short_transfer] = 0.2;
    faults[DiskFault::interrupted] = 0.1;
    faults[DiskFault::again] = 0.1;
    open(faults);
    auto writes = run(DiskOp::write), reads = run(DiskOp::read);
    expect_ok(writes);
    expect_ok(reads);
    EXPECT_EQ(wrong_requests(), 0u) << "seed " << seed;
    u64 retries = 0;
    for (const auto& c : writes) retries += c.retries;
    for (const auto& c : reads) retries += c.retries;
    EXPECT_EQ(retries,
              struck(DiskFault::short_transfer) + struck(DiskFault::interrupted) + struck(DiskFault::again));
    EXPECT_GT(retries, 20u);
  }
}

TEST_F(DiskFaultTest, EndlessInterruptionFailsWithinItsBound) {
  DiskFaults faults;
  faults[DiskFault::again] = 1.0;
  open(faults);
  disk_->submit({DiskOp::write, 0, source(0, frame_alignment), 5});
  auto all = completions_.take(1);
  EXPECT_FALSE(all[0].ok);
  EXPECT_NE(all[0].error.message.find("EAGAIN"), std::string::npos) << all[0].error.message;
}

TEST_F(DiskFaultTest, HardErrorsFailTheirRequestOnly) {
  open({.scripted = {{DiskFault::io_error, DiskOp::write, 3 * request_bytes + 100 * kib, 0},
                     {DiskFault::no_space, DiskOp::write, 7 * request_bytes, 0}}});
  auto all = run(DiskOp::write);
  for (const DiskCompletion& c : all) EXPECT_EQ(c.ok, c.tag != 3 && c.tag != 7) << c.tag;
  EXPECT_NE(all[3].error.message.find("at offset 1638400 of simulated disk"), std::string::npos)
      << all[3].error.message;
  EXPECT_NE(all[3].error.message.find("EIO"), std::string::npos);
  EXPECT_NE(all[3].error.message.find("smartctl"), std::string::npos);
  EXPECT_NE(all[7].error.message.find("ENOSPC"), std::string::npos);
  EXPECT_NE(all[7].error.message.find("swap_dir"), std::string::npos);
  expect_ok(run(DiskOp::write));  // the faults struck only the first time
}

TEST_F(DiskFaultTest, ManyHardErrorsStillCompleteEveryRequestOnce) {
  DiskFaults faults{.seed = 3};
  faults[DiskFault::io_error] = 0.3;
  faults[DiskFault::short_transfer] = 0.3;
  open(faults);
  auto all = run(DiskOp::write);
  ASSERT_EQ(all.size(), requests);
  for (u64 i = 0; i < requests; ++i) EXPECT_EQ(all[i].tag, i);
}

// The disk cannot detect these faults: the chunks' checksums do.
TEST_F(DiskFaultTest, SilentFaultsReportSuccess) {
  struct Case {
    DiskFault fault;
    DiskOp op;
    u64 wrong_min, wrong_max;
  };
  for (Case c :
       {Case{DiskFault::bit_flip, DiskOp::read, 1, 1}, Case{DiskFault::lost_write, DiskOp::write, 1, 1},
        Case{DiskFault::misdirected_read, DiskOp::read, 1, 1},
        // The intended range is stale, and up to two other ranges may hold foreign bytes.
        Case{DiskFault::misdirected_write, DiskOp::write, 1, 3}}) {
    fill_random(source(0, disk_bytes), 11);
    open({.seed = 5, .scripted = {{c.fault, c.op, 2 * request_bytes, 0}}, .reorder = false});
    expect_ok(run(DiskOp::write));
    expect_ok(run(DiskOp::read));
    EXPECT_GE(wrong_requests(), c.wrong_min) << static_cast<u32>(c.fault);
    EXPECT_LE(wrong_requests(), c.wrong_max) << static_cast<u32>(c.fault);
    EXPECT_EQ(struck(c.fault), 1u);
  }
}

TEST_F(DiskFaultTest, ASeedRepeatsARunWhateverTheTiming) {
  DiskFaults faults{.seed = 9};
  for (double& rate : faults.rate) rate = 0.05;
  auto once = [&](u32 delay_us_max) {
    faults.delay_us_max = delay_us_max;
    open(faults);
    std::vector<bool> ok;
    for (const auto& c : run(DiskOp::read)) ok.push_back(c.ok);
    return std::pair(ok, disk_->struck());
  };
  // Reads only: the effect of a failed request depends on how many of its pieces were done.
  faults[DiskFault::io_error] = 0;
  auto first = once(0), second = once(300);
  EXPECT_EQ(first, second);
  faults.seed = 10;
  EXPECT_NE(once(0).second, first.second);
}

TEST_F(DiskFaultTest, CompletionsComeOutOfOrder) {
  open({.seed = 1});
  std::vector<DiskCompletion> all;
  // A machine that completes each request before the next is submitted knows no other order: then again.
  for (u32 round = 0; round < 1'000 && std::ranges::is_sorted(all, {}, &DiskCompletion::tag); ++round) {
    for (u64 i = 0; i < requests; ++i)
      disk_->submit({DiskOp::read, i * 64 * kib, target(i * 64 * kib, 64 * kib), i});
    all = completions_.take(requests);
  }
  EXPECT_FALSE(std::ranges::is_sorted(all, {}, &DiskCompletion::tag));
}

}  // namespace tidepool::disk_fault_test
