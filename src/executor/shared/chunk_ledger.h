// ChunkLedger keeps versions and checksums of chunks on disk.
#pragma once

#include <span>
#include <vector>

#include "base/check.h"
#include "io/state_journal.h"
#include "kernels/checksum/checksum.h"
#include "tidepool/plan.h"

namespace tidepool {

// THREADS: several threads may use different chunks at once. The plan orders the ops that read or write one
// chunk.
class ChunkLedger {
 public:
  explicit ChunkLedger(const Plan& plan) : plan_(plan), entries_(plan.chunks.size()) {
    for (const Chunk& chunk : plan.chunks) {
      const u64 blocks = div_up(chunk.bytes.value, block_bytes(chunk));
      if (blocks > blocks_max_) blocks_max_ = blocks;
    }
  }

  // The slot that holds the newest content, and the one that the next write goes to: not the one that the
  // last record counts on. Both 0 if the plan keeps one version.
  u32 slot(ChunkId id) const { return entries_[index(id)].slot; }
  u32 slot_to_write(ChunkId id) const {
    const Entry& entry = entries_[index(id)];
    return entry.recorded == none ? entry.slot : 1 - entry.recorded;
  }
  // A record counts on the newest content from now on.
  void recorded(ChunkId id) {
    Entry& entry = entries_[index(id)];
    entry.recorded = entry.slot;
    entry.recorded_version = entry.version;
    entry.recorded_sum = entry.sum;
    entry.recorded_zeros = entry.zeros;
  }
  // The chunk is as the last record has it.
  // REQUIRES: there is a record.
  void roll_back(ChunkId id) {
    Entry& entry = entries_[index(id)];
    CHECK(entry.recorded != none, index(id));
    entry.version = entry.recorded_version;
    entry.sum = entry.recorded_sum;
    entry.zeros = entry.recorded_zeros;
    entry.slot = entry.recorded;
    entry.prepared = false;
  }
  ChunkMark mark(ChunkId id) const {
    const Entry& entry = entries_[index(id)];
    return {.version = entry.version, .sum = entry.sum, .slot = entry.slot, .zeros = entry.zeros};
  }
  // The chunk is as an earlier process has recorded it.
  void take_over(ChunkId id, const ChunkMark& mark) {
    entries_[index(id)] = {.version = mark.version, .sum = mark.sum, .zeros = mark.zeros, .slot = mark.slot};
    recorded(id);
  }

  // RETURNS: the seed for the next write.
  u64 next_seed(ChunkId id) const { return checksum_seed(id, entries_[index(id)].version + 1); }
  // Records the checksum of the next write, if an update made it on the way.
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
    entry.slot = slot_to_write(id);
    entry.prepared = entry.zeros = false;
  }
  // The chunk was cleared: its content is zeros, which need no checksum.
  void cleared(ChunkId id) {
    Entry& entry = entries_[index(id)];
    ++entry.version;
    entry.slot = slot_to_write(id);
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

  // `hashes`: scratch with blocks_max() elements.
  u64 make_sum(ChunkId id, std::span<const std::byte> content, u64 seed, std::span<u64> hashes,
               CorePool& pool) const {
    return chunk_checksum(content, block_bytes(plan_.chunk(id)), seed, hashes.first(blocks(id)), pool);
  }
  // RETURNS: true if `content`, read from disk, equals the last write or clearing of the chunk.
  bool is_current(ChunkId id, std::span<const std::byte> content, std::span<u64> hashes,
                  CorePool& pool) const {
    const Entry& entry = entries_[index(id)];
    if (entry.zeros) return all_zeros(content, pool);
    return make_sum(id, content, checksum_seed(id, entry.version), hashes, pool) == entry.sum;
  }

 private:
  struct Entry {
    u64 version = 0;  // writes and clearings so far; 0: nothing on disk
    u64 sum = 0;      // checksum of that version
    u64 next = 0;     // checksum of version + 1, if prepared
    bool prepared = false;
    bool zeros = false;   // the last change was a clearing
    u32 slot = 0;         // of the newest content
    u32 recorded = none;  // slot that the last record counts on; none: there is no record
    u64 recorded_version = 0, recorded_sum = 0;
    bool recorded_zeros = false;
  };
  const Plan& plan_;
  std::vector<Entry> entries_;
  u64 blocks_max_ = 0;
};

}  // namespace tidepool
