#include "kernels/checksum/checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <set>
#include <vector>

namespace tidepool::checksum_test {

std::vector<std::byte> counting_bytes(u64 n) {
  std::vector<std::byte> bytes(n);
  for (u64 i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  return bytes;
}

TEST(Checksum, BlocksAreXxh3WithSeed) {
  const auto bytes = counting_bytes(64 * kib);
  for (u64 n : {0ul, 1ul, 240ul, 241ul, 1024ul, 1025ul, 65536ul})
    EXPECT_EQ(block_checksum(std::span(bytes).first(n), 42, 3),
              XXH3_64bits_withSeed(bytes.data(), n, block_seed(42, 3)));
}

TEST(Checksum, SeedsDiffer) {
  std::set<u64> seeds;
  for (u32 chunk = 0; chunk < 50; ++chunk)
    for (u64 version = 0; version < 50; ++version) seeds.insert(checksum_seed(ChunkId{chunk}, version));
  EXPECT_EQ(seeds.size(), 2500u);
}

TEST(Checksum, ChunkCombinesItsBlocksWhateverTheWorkers) {
  const u64 block = 4 * kib;
  const auto bytes = counting_bytes(100 * block + 512);
  const u64 seed = checksum_seed(ChunkId{7}, 3);
  std::vector<u64> expected(101), hashes(101);
  for (u64 i = 0; i < 101; ++i)
    expected[i] = block_checksum(std::span(bytes).subspan(i * block, i < 100 ? block : 512), seed, i);
  for (u32 workers : {1u, 2u, 5u}) {
    auto pool = create_core_pool(workers, Bytes{0}).value();
    EXPECT_EQ(chunk_checksum(bytes, block, seed, hashes, *pool), combine_checksums(expected, seed));
    EXPECT_EQ(hashes, expected);
  }
}

TEST(Checksum, CatchesFlipsSwapsAndStaleReads) {
  auto pool = create_core_pool(2, Bytes{0}).value();
  const u64 block = 4 * kib;
  std::vector<u64> hashes(8);
  auto bytes = counting_bytes(8 * block);
  const u64 seed = checksum_seed(ChunkId{1}, 5);
  const u64 good = chunk_checksum(bytes, block, seed, hashes, *pool);
  EXPECT_NE(good, chunk_checksum(bytes, block, checksum_seed(ChunkId{1}, 4), hashes, *pool));
  EXPECT_NE(good, chunk_checksum(bytes, block, checksum_seed(ChunkId{2}, 5), hashes, *pool));
  bytes[12345] ^= std::byte{4};
  EXPECT_NE(good, chunk_checksum(bytes, block, seed, hashes, *pool));
  bytes[12345] ^= std::byte{4};
  std::swap_ranges(bytes.begin(), bytes.begin() + block, bytes.begin() + 3 * block);
  EXPECT_NE(good, chunk_checksum(bytes, block, seed, hashes, *pool));
}

}  // namespace tidepool::checksum_test
