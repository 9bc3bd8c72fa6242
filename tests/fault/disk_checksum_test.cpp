// Checksums seeded with (chunk, version) catch faults that a disk reports as success.
#include "io/simulated_disk.h"
#include "kernels/checksum/checksum.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::disk_checksum_test {

constexpr u64 chunk_bytes = 512 * kib;
constexpr u64 chunks = 16;
constexpr u64 block_bytes = checksum_block_elements * 4;

// Writes chunks in versions 0 and 1 and then reads them, as an executor does.
class DiskChecksumTest : public testing::TestWithParam<DiskFault> {
 protected:
  std::span<std::byte> memory(u64 chunk) {
    return arena_->memory().subspan(chunk * chunk_bytes, chunk_bytes);
  }

  u64 checksum(u64 chunk, u64 version) {
    std::array<u64, chunk_bytes / block_bytes> hashes;
    return chunk_checksum(memory(chunk), block_bytes,
                          checksum_seed(ChunkId(static_cast<u32>(chunk)), version), hashes, *pool_);
  }
  void run(Disk& disk, DiskOp op) {
    for (u64 c = 0; c < chunks; ++c) disk.submit({op, c * chunk_bytes, memory(c), c});
    for (const DiskCompletion& done : completions_.take(chunks)) ASSERT_TRUE(done.ok) << done.error.message;
  }

  std::unique_ptr<CorePool> pool_ = create_core_pool(2, Bytes{4096}).value();
  std::unique_ptr<Arena> arena_ = test::make_arena(chunks * chunk_bytes);
  test::Completions completions_;
};

TEST_P(DiskChecksumTest, FindsTheChunk) {
  DiskFault fault = GetParam();
  bool on_write = fault == DiskFault::lost_write || fault == DiskFault::misdirected_write;
  // The second write of chunk 5, or its first read.
  ScriptedFault script{fault, on_write ? DiskOp::write : DiskOp::read, 5 * chunk_bytes + 128 * kib,
                       on_write ? 1u : 0u};
  auto disk = create_simulated_disk(Bytes{chunks * chunk_bytes}, {.seed = 2, .scripted = {script}},
                                    {.piece = Bytes{64 * kib}}, completions_.sink());
  std::array<u64, chunks> expected{};
  for (u64 version = 0; version < 2; ++version) {
    test::fill_random(arena_->memory(), version);
    for (u64 c = 0; c < chunks; ++c) expected[c] = checksum(c, version);
    run(*disk, DiskOp::write);
  }
  run(*disk, DiskOp::read);
  EXPECT_NE(checksum(5, 1), expected[5]);
  u64 wrong = 0;
  for (u64 c = 0; c < chunks; ++c) wrong += checksum(c, 1) != expected[c] ? 1 : 0;
  EXPECT_LE(wrong, fault == DiskFault::misdirected_write ? 3u : 1u);
}
INSTANTIATE_TEST_SUITE_P(Silent, DiskChecksumTest,
                         testing::Values(DiskFault::bit_flip, DiskFault::lost_write,
                                         DiskFault::misdirected_read, DiskFault::misdirected_write));

}  // namespace tidepool::disk_checksum_test
