// Contract of all disks, asked of every implementation.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>
#include <thread>

#include "io/simulated_disk.h"
#include "io/swap_file.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::disk_contract_test {

using test::Completions;
using test::equal;
using test::fill_random;

enum class Make : u8 { io_uring, io_uring_unregistered, threads, simulated };

struct Param {
  Make make;
  u32 depth;
};
std::string param_name(const testing::TestParamInfo<Param>& info) {
  constexpr const char* names[] = {"io_uring", "io_uring_unregistered", "threads", "simulated"};
  return fmt::format("{}_depth_{}", names[static_cast<u32>(info.param.make)], info.param.depth);
}

constexpr u64 file_bytes = 48 * mib;
constexpr u64 arena_bytes = 96 * mib;  // source in the first half, destination in the second
constexpr u64 piece_bytes = 256 * kib;

class DiskContract : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    arena_ = test::make_arena(arena_bytes);
    if (!simulated()) {
      auto file = SwapFile::create({.dir = dir_ / "swap", .bytes = Bytes{file_bytes}});
      if (!file && file.error().message.find("tmpfs") != std::string::npos) {
        GTEST_SKIP() << "SKIPPED, real disks are not tested here: " << file.error().message;
      }
      ASSERT_TRUE(file) << file.error().message;
      file_ = std::move(file).value();
    }
    open();
  }
  void TearDown() override { disk_.reset(); }

  void open(std::vector<ScriptedFault> faults = {}) {
    disk_.reset();
    DiskOptions options{.queue_depth = GetParam().depth, .piece = Bytes{piece_bytes}};
    if (GetParam().make != Make::io_uring_unregistered) options.arenas = {arena_->memory()};
    if (simulated()) {
      disk_ = create_simulated_disk(Bytes{file_bytes}, {.seed = 7, .scripted = std::move(faults)}, options,
                                    completions_.sink());
      return;
    }
    auto backend = GetParam().make == Make::threads ? DiskBackend::threads : DiskBackend::io_uring;
    auto disk = create_disk(*file_, backend, options, completions_.sink());
    if (!disk) GTEST_SKIP() << "SKIPPED, io_uring is not tested here: " << disk.error().message;
    disk_ = std::move(disk).value();
  }

  bool simulated() const { return GetParam().make == Make::simulated; }
  std::span<std::byte> source(u64 offset, u64 bytes) { return arena_->memory().subspan(offset, bytes); }
  std::span<std::byte> target(u64 offset, u64 bytes) { return source(arena_bytes / 2 + offset, bytes); }

  void expect_all_ok(u64 count) {
    for (const DiskCompletion& c : completions_.take(count)) EXPECT_TRUE(c.ok) << c.error.message;
  }

  test::ScratchDir dir_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<SwapFile> file_;
  Completions completions_;
  std::unique_ptr<Disk> disk_;
};

// Ranges of random sizes (1 page to 9 pieces) that cover the file, in random order.
struct Range {
  u64 offset = 0, bytes = 0;
};
std::vector<Range> random_ranges(u64 seed) {
  std::mt19937_64 random(seed);
  std::vector<Range> ranges;
  for (u64 at = 0; at < file_bytes;) {
    u64 pages_max = random() % 4 == 0 ? 9 * piece_bytes / frame_alignment : 40;
    u64 bytes = std::min((1 + random() % pages_max) * frame_alignment, file_bytes - at);
    ranges.push_back({at, bytes});
    at += bytes;
  }
  std::shuffle(ranges.begin(), ranges.end(), random);
  return ranges;
}

TEST_P(DiskContract, RandomRangesReadBackAsWritten) {
  fill_random(source(0, file_bytes), 1);
  auto writes = random_ranges(2), reads = random_ranges(3);
  for (auto [offset, bytes] : writes) disk_->submit({DiskOp::write, offset, source(offset, bytes), offset});
  expect_all_ok(writes.size());
  for (auto [offset, bytes] : reads) disk_->submit({DiskOp::read, offset, target(offset, bytes), offset});
  expect_all_ok(reads.size());
  EXPECT_TRUE(equal(source(0, file_bytes), target(0, file_bytes)));
}

TEST_P(DiskContract, EveryTagComesBackExactlyOnce) {
  auto ranges = random_ranges(4);
  std::set<u64> expected;
  for (u64 i = 0; i < ranges.size(); ++i) {
    auto [offset, bytes] = ranges[i];
    u64 tag = 0x1000000000 + i * 3;
    expected.insert(tag);
    disk_->submit({i % 2 == 0 ? DiskOp::write : DiskOp::read, offset, source(offset, bytes), tag});
  }
  for (const DiskCompletion& c : completions_.take(ranges.size())) {
    EXPECT_TRUE(c.ok) << c.error.message;
    EXPECT_EQ(expected.erase(c.tag), 1u) << c.tag;
  }
  EXPECT_TRUE(expected.empty());
}

TEST_P(DiskContract, ReadsPassWritesOfOtherRanges) {
  fill_random(source(0, file_bytes / 2), 5);
  disk_->submit({DiskOp::write, 0, source(0, file_bytes / 2), 1});
  expect_all_ok(1);
  // The first half is read while the second is written, a piece at a time.
  constexpr u64 count = file_bytes / 2 / piece_bytes;
  for (u64 i = 0; i < count; ++i) {
    u64 at = i * piece_bytes;
    disk_->submit({DiskOp::write, file_bytes / 2 + at, source(at, piece_bytes), 2 * i});
    disk_->submit({DiskOp::read, at, target(at, piece_bytes), 2 * i + 1});
  }
  expect_all_ok(2 * count);
  EXPECT_TRUE(equal(source(0, file_bytes / 2), target(0, file_bytes / 2)));
}

TEST_P(DiskContract, SeveralThreadsMaySubmit) {
  constexpr u64 threads = 4, each = 64, bytes = 32 * kib;
  fill_random(source(0, threads * each * bytes), 6);
  std::vector<std::thread> submitters;
  for (u64 t = 0; t < threads; ++t) {
    submitters.emplace_back([&, t] {
      for (u64 i = 0; i < each; ++i) {
        u64 at = (t * each + i) * bytes;
        disk_->submit({DiskOp::write, at, source(at, bytes), at});
      }
    });
  }
  for (std::thread& s : submitters) s.join();
  expect_all_ok(threads * each);
  disk_->submit({DiskOp::read, 0, target(0, threads * each * bytes), 0});
  expect_all_ok(1);
  EXPECT_TRUE(equal(source(0, threads * each * bytes), target(0, threads * each * bytes)));
}

TEST_P(DiskContract, TheSinkMaySubmit) {
  // Each completed write starts the next, from the disk's own thread.
  constexpr u64 count = 50;
  fill_random(source(0, count * frame_alignment), 7);
  Disk* disk = nullptr;
  auto collect = completions_.sink();
  auto request = [&](u64 i) {
    return DiskRequest{DiskOp::write, i * frame_alignment, source(i * frame_alignment, frame_alignment), i};
  };
  DiskSink chain = [&](const DiskCompletion& c) {
    if (c.tag + 1 < count) disk->submit(request(c.tag + 1));
    collect(c);
  };
  DiskOptions options{.queue_depth = GetParam().depth, .piece = Bytes{piece_bytes}};
  disk_.reset();
  if (simulated())
    disk_ = create_simulated_disk(Bytes{file_bytes}, {}, options, chain);
  else if (auto made = create_disk(*file_, DiskBackend::automatic, options, chain))
    disk_ = std::move(made).value();
  ASSERT_NE(disk_, nullptr);
  disk = disk_.get();
  disk->submit(request(0));
  expect_all_ok(count);
}

TEST_P(DiskContract, DestroyingWaitsForSubmittedRequests) {
  fill_random(source(0, file_bytes), 8);
  for (u64 at = 0; at < file_bytes; at += mib) disk_->submit({DiskOp::write, at, source(at, mib), at});
  disk_.reset();
  EXPECT_EQ(completions_.take(0).size(), file_bytes / mib);
}

TEST_P(DiskContract, AClearedRangeReadsAsZerosAndCanBeWrittenAgain) {
  fill_random(source(0, 4 * mib), 9);
  disk_->submit({DiskOp::write, 8 * mib, source(0, 4 * mib), 0});
  expect_all_ok(1);
  ASSERT_TRUE(disk_->clear(9 * mib, Bytes{2 * mib}));
  disk_->submit({DiskOp::read, 8 * mib, target(0, 4 * mib), 1});
  expect_all_ok(1);
  std::fill_n(source(1 * mib, 2 * mib).begin(), 2 * mib, std::byte{0});
  EXPECT_TRUE(std::ranges::equal(source(0, 4 * mib), target(0, 4 * mib)));
  disk_->submit({DiskOp::write, 9 * mib, source(0, mib), 2});
  expect_all_ok(1);
  disk_->submit({DiskOp::read, 9 * mib, target(0, mib), 3});
  expect_all_ok(1);
  EXPECT_TRUE(std::ranges::equal(source(0, mib), target(0, mib)));
}

TEST_P(DiskContract, SyncsAndDescribesItself) {
  disk_->submit({DiskOp::write, 0, source(0, mib), 0});
  expect_all_ok(1);
  EXPECT_TRUE(disk_->sync());
  EXPECT_FALSE(disk_->describe().empty());
  RecordProperty("describe", disk_->describe());
}

TEST_P(DiskContract, AFailureIsTypedAndTouchesNoOtherRequest) {
  if (simulated())
    open({{DiskFault::io_error, DiskOp::read, 32 * mib, 0}});
  else
    ASSERT_EQ(ftruncate(file_->fd(), 32 * mib), 0);
  disk_->submit({DiskOp::read, 16 * mib, target(0, 4 * mib), 1});
  disk_->submit({DiskOp::read, 30 * mib, target(4 * mib, 4 * mib), 2});
  disk_->submit({DiskOp::read, 20 * mib, target(8 * mib, 4 * mib), 3});
  for (const DiskCompletion& c : completions_.take(3)) {
    EXPECT_EQ(c.ok, c.tag != 2) << c.tag;
    if (c.ok) continue;
    EXPECT_EQ(c.error.kind, ErrorKind::io);
    EXPECT_NE(c.error.message.find("cannot read"), std::string::npos) << c.error.message;
    EXPECT_NE(c.error.message.find("at offset 33554432"), std::string::npos) << c.error.message;
    std::string where = file_ ? file_->path() : "simulated disk";
    EXPECT_NE(c.error.message.find(where), std::string::npos) << c.error.message;
  }
}

TEST_P(DiskContract, AShortWriteIsContinuedUntilTheErrorBehindIt) {
  if (simulated()) GTEST_SKIP() << "file size limits are for real files; the fault suite has its own";
  // A write across the limit is short; continuing it gives EFBIG.
  u64 limit_bytes = 8 * mib + 3 * frame_alignment;
  auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit low{limit_bytes, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  fill_random(source(0, piece_bytes), 9);
  disk_->submit({DiskOp::write, 8 * mib, source(0, piece_bytes), 1});
  auto completions = completions_.take(1);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_FALSE(completions[0].ok);
  EXPECT_GE(completions[0].retries, 1u);
  EXPECT_NE(completions[0].error.message.find("EFBIG"), std::string::npos) << completions[0].error.message;
  EXPECT_NE(completions[0].error.message.find("ulimit -f"), std::string::npos)
      << completions[0].error.message;
  disk_->submit({DiskOp::read, 8 * mib, target(0, 3 * frame_alignment), 2});
  expect_all_ok(1);
  EXPECT_TRUE(equal(source(0, 3 * frame_alignment), target(0, 3 * frame_alignment)));
}

INSTANTIATE_TEST_SUITE_P(All, DiskContract,
                         testing::Values(Param{Make::io_uring, 1}, Param{Make::io_uring, 32},
                                         Param{Make::io_uring_unregistered, 32}, Param{Make::threads, 1},
                                         Param{Make::threads, 32}, Param{Make::simulated, 1},
                                         Param{Make::simulated, 32}),
                         param_name);

}  // namespace tidepool::disk_contract_test
