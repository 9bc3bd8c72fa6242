// Checksums of chunks with XXH3, block by block, so that tiles of updates and disk pieces can compute them on
// the way.
#pragma once

#include <span>

#include "tidepool/chunk.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Seed of a chunk's version: a stale or misdirected read has another (chunk, version) and so fails.
u64 checksum_seed(ChunkId, u64 version);
// Seed of one block of a chunk, so that swapped blocks are detected.
u64 block_seed(u64 seed, u64 block_number);
// XXH3-64 of one block, with block_seed(seed, block_number).
u64 block_checksum(std::span<const std::byte> block, u64 seed, u64 block_number);
// RETURNS: the checksum of the whole chunk, from the checksums of its blocks in order.
u64 combine_checksums(std::span<const u64> blocks, u64 seed);
// `block_bytes` = checksum_block_elements * element bytes. `hashes` holds div_up(bytes, block_bytes).
u64 chunk_checksum(std::span<const std::byte> chunk, u64 block_bytes, u64 seed, std::span<u64> hashes,
                   CorePool&);

// RETURNS: true if every byte is zero.
bool all_zeros(std::span<const std::byte> chunk, CorePool&);

}  // namespace tidepool
