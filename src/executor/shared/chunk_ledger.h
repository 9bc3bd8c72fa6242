// Versions and checksums of what lies on disk, per chunk.
#pragma once

#include <span>
#include <vector>

#include "kernels/checksum/checksum.h"
#include "tidepool/plan.h"

namespace tidepool {

// Entries of one chunk are used by the ops that read or write it, which the plan orders; different
// chunks may be used by several threads at once.
class ChunkLedger {
 public:
  explicit ChunkLedger(const Plan& plan) : plan_(plan), entries_(plan.chunks.size()) {
    for (const Chunk& chunk : plan.chunks) {
      const u64 blocks = div_up(chunk.bytes.value, block_bytes(chunk));
      if (blocks > blocks_max_) blocks_max_ = blocks;
    }
  }

  // The seed of the next write.
  u64 next_seed(ChunkId id) const { return checksum_seed(id, entries_[index(id)].version + 1); }
  // The checksum of what will be written next, where it was made on the way.
  void prepare(ChunkId id, u64 sum) {
    entries_[index(id)].next = sum;
    entries_[index(id)].prepared = true;
  }
  bool prepared(ChunkId id) const { return entries_[index(id)].prepared; }
  // The write of the prepared content has completed.
  void commit(ChunkId id) {
    Entry& entry = entries_[index(id)];
    ++entry.version;
    entry.sum = entry.next;
    entry.prepared = entry.zeros = false;
  }
  // It was cleared: zeros are its content, which need no checksum.
  void cleared(ChunkId id) {
    Entry& entry = entries_[index(id)];
    ++entry.version;
    entry.prepared = false;
    entry.zeros = true;
  }

  bool written(ChunkId id) const { return entries_[index(id)].version > 0; }
  u64 version(ChunkId id) const { return entries_[index(id)].version; }

  u64 block_bytes(const Chunk& chunk) const {
    return checksum_block_elements * element_bytes(chunk.kind, plan_.precision);
  }
  u64 blocks(ChunkId id) const { return div_up(plan_.chunk(id).bytes.value, block_bytes(plan_.chunk(id))); }
  u64 blocks_max() const { return blocks_max_; }

  // `hashes`: scratch of blocks_max().
  u64 make_sum(ChunkId id, std::span<const std::byte> content, u64 seed, std::span<u64> hashes,
               CorePool& pool) const {
    return chunk_checksum(content, block_bytes(plan_.chunk(id)), seed, hashes.first(blocks(id)), pool);
  }
  // Whether `content`, as it came from disk, is what the last write or clearing left there.
  bool is_current(ChunkId id, std::span<const std::byte> content, std::span<u64> hashes,
                  CorePool& pool) const {
    const Entry& entry = entries_[index(id)];
    if (entry.zeros) return all_zeros(content, pool);
    return make_sum(id, content, checksum_seed(id, entry.version), hashes, pool) == entry.sum;
  }

 private:
  struct Entry {
    u64 version = 0;  // writes and clearings so far; 0: nothing on disk
    u64 sum = 0;      // of that version
    u64 next = 0;     // of version + 1, if prepared
    bool prepared = false;
    bool zeros = false;  // the last was a clearing
  };
  const Plan& plan_;
  std::vector<Entry> entries_;
  u64 blocks_max_ = 0;
};

}  // namespace tidepool
