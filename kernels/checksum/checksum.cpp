#include "kernels/checksum/checksum.h"

#include <atomic>

#include "base/check.h"
#include "base/mix_bits.h"
#include "kernels/checksum/xxh3.h"

namespace tidepool {
namespace {

// Blocks per task: 16 blocks of 64 KiB take about 50 us, long compared to claiming a task.
constexpr u64 task_blocks = 16;

}  // namespace

u64 checksum_seed(ChunkId chunk, u64 version) {
  return mix_bits(mix_bits(u64{index(chunk)} + golden_gamma) + version);
}

u64 block_seed(u64 seed, u64 block_number) { return mix_bits(seed + golden_gamma * (block_number + 1)); }

u64 block_checksum(std::span<const std::byte> block, u64 seed, u64 block_number) {
  return XXH3_64bits_withSeed(block.data(), block.size(), block_seed(seed, block_number));
}

u64 combine_checksums(std::span<const u64> blocks, u64 seed) {
  return XXH3_64bits_withSeed(blocks.data(), blocks.size_bytes(), mix_bits(seed ^ blocks.size()));
}

u64 chunk_checksum(std::span<const std::byte> chunk, u64 block_bytes, u64 seed, std::span<u64> hashes,
                   CorePool& pool) {
  CHECK(block_bytes > 0, block_bytes);
  const u64 blocks = div_up(chunk.size(), block_bytes);
  CHECK(hashes.size() >= blocks, hashes.size(), blocks);
  const u64 tasks = div_up(blocks, task_blocks);
  parallel_for(pool, Priority::high, static_cast<u32>(tasks), [&](u32 task, u32) {
    const u64 end = std::min(blocks, (u64{task} + 1) * task_blocks);
    for (u64 block = u64{task} * task_blocks; block < end; ++block) {
      const u64 begin = block * block_bytes;
      hashes[block] =
          block_checksum(chunk.subspan(begin, std::min(block_bytes, chunk.size() - begin)), seed, block);
    }
  });
  return combine_checksums(hashes.first(blocks), seed);
}

bool all_zeros(std::span<const std::byte> chunk, CorePool& pool) {
  constexpr u64 task_bytes = mib;
  std::atomic<bool> zeros{true};
  parallel_for(pool, Priority::high, static_cast<u32>(div_up(chunk.size(), task_bytes)), [&](u32 task, u32) {
    const u64 begin = task * task_bytes, bytes = std::min(task_bytes, chunk.size() - begin);
    u32 bits = 0;
    for (const std::byte byte : chunk.subspan(begin, bytes)) bits |= std::to_integer<u32>(byte);
    if (bits != 0) zeros.store(false, std::memory_order_relaxed);
  });
  return zeros.load(std::memory_order_relaxed);
}

}  // namespace tidepool
