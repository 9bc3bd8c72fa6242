// XXH3 of chunks, block by block, so that Adam's tiles and disk pieces can make it on the way.
#pragma once

#include <span>

#include "tidepool/chunk.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// A stale or misdirected read has another (chunk, version), and so fails.
u64 checksum_seed(ChunkId, u64 version);
// What block number `block_number` of a chunk is hashed with: blocks that change places are caught.
u64 block_seed(u64 seed, u64 block_number);
// XXH3-64 of one block, with block_seed(seed, block_number).
u64 block_checksum(std::span<const std::byte> block, u64 seed, u64 block_number);
// Of the whole chunk, from its blocks in order.
u64 combine_checksums(std::span<const u64> blocks, u64 seed);
// `block_bytes` = checksum_block_elements * element bytes. `hashes` holds div_up(bytes, block_bytes).
u64 chunk_checksum(std::span<const std::byte> chunk, u64 block_bytes, u64 seed, std::span<u64> hashes,
                   CorePool&);

// Whether every byte is zero.
bool all_zeros(std::span<const std::byte> chunk, CorePool&);

}  // namespace tidepool
