// ChunkLedger keeps versions and checksums of chunks on disk, and chooses the slot of each write.
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
      const u64 blocks = div_up(content_bytes(chunk), block_bytes(chunk));
      if (blocks > blocks_max_) blocks_max_ = blocks;
    }
  }

  // The slot that holds the newest content; 0 if the plan keeps one version.
  u32 slot(ChunkId id) const { return entries_[index(id)].slot; }
  // The first slot that neither the last commit counts on nor a hold keeps. It may have the newest content,
  // if no commit counts on that. THREADS: as hold().
  u32 free_slot(ChunkId id) const {
    const Entry& entry = entries_[index(id)];
    u32 slot = 0;
    while (slot == entry.committed || slot == entry.held) ++slot;
    CHECK(slot < plan_.versions, index(id), entry.committed, entry.held);
    return slot;
  }
  // Chooses the slot of the write that begins now. The choice stands until end_write() or cleared(), whatever
  // is committed, held or released meanwhile.
  // THREADS: as hold().
  void begin_write(ChunkId id) { entries_[index(id)].target = free_slot(id); }
  u32 slot_to_write(ChunkId id) const { return entries_[index(id)].target; }

  // The content that the last commit counts on stays in its slot until release(), also after other commits.
  // With two versions no commit may be made meanwhile: there would be no slot left to write to.
  // REQUIRES: there is a commit; nothing is held; no commit is being made.
  // THREADS: one thread calls hold(), release() and everything that chooses slots: the engine's.
  void hold(ChunkId id) {
    Entry& entry = entries_[index(id)];
    CHECK(entry.committed != none && entry.held == none, index(id), entry.committed, entry.held);
    entry.held = entry.committed;
  }
  void release(ChunkId id) { entries_[index(id)].held = none; }

  // A commit counts on the newest content from now on.
  void committed(ChunkId id) {
    Entry& entry = entries_[index(id)];
    entry.committed = entry.slot;
    entry.committed_version = entry.version;
    entry.committed_sum = entry.sum;
    entry.committed_zeros = entry.zeros;
  }
  // The chunk is as the last commit has it.
  // REQUIRES: there is a commit.
  void roll_back(ChunkId id) {
    Entry& entry = entries_[index(id)];
    CHECK(entry.committed != none, index(id));
    entry.version = entry.committed_version;
    entry.sum = entry.committed_sum;
    entry.zeros = entry.committed_zeros;
    entry.slot = entry.committed;
    entry.prepared = false;
  }
  // The newest content, for the next commit.
  ChunkMark mark(ChunkId id) const {
    const Entry& entry = entries_[index(id)];
    return {.version = entry.version, .sum = entry.sum, .slot = entry.slot, .zeros = entry.zeros};
  }
  // RETURNS: the chunk's part of the last commit.
  // REQUIRES: there is a commit.
  ChunkMark committed_mark(ChunkId id) const {
    const Entry& entry = entries_[index(id)];
    CHECK(entry.committed != none, index(id));
    return {.version = entry.committed_version,
            .sum = entry.committed_sum,
            .slot = entry.committed,
            .zeros = entry.committed_zeros};
  }
  // The chunk is as an earlier process has committed it.
  // REQUIRES: the plan has the slot; nothing is held.
  void take_over(ChunkId id, const ChunkMark& mark) {
    CHECK(mark.slot < plan_.versions && entries_[index(id)].held == none, index(id), mark.slot);
    entries_[index(id)] = {.version = mark.version, .sum = mark.sum, .zeros = mark.zeros, .slot = mark.slot};
    committed(id);
  }

  // RETURNS: the seed for the next write.
  u64 next_seed(ChunkId id) const { return checksum_seed(id, entries_[index(id)].version + 1); }
  // Keeps the checksum of the next write, if an update made it on the way.
  void prepare(ChunkId id, u64 sum) {
    entries_[index(id)].next = sum;
    entries_[index(id)].prepared = true;
  }
  bool prepared(ChunkId id) const { return entries_[index(id)].prepared; }
  // The write of the prepared content, begun by begin_write(), has completed.
  void end_write(ChunkId id) {
    Entry& entry = entries_[index(id)];
    ++entry.version;
    entry.sum = entry.next;
    entry.slot = entry.target;
    entry.prepared = entry.zeros = false;
  }
  // The chunk was cleared, in the slot that begin_write() chose: its content is zeros, which need no
  // checksum.
  void cleared(ChunkId id) {
    Entry& entry = entries_[index(id)];
    ++entry.version;
    entry.slot = entry.target;
    entry.prepared = false;
    entry.zeros = true;
  }

  bool written(ChunkId id) const { return entries_[index(id)].version > 0; }
  u64 version(ChunkId id) const { return entries_[index(id)].version; }

  u64 block_bytes(const Chunk& chunk) const {
    return plan_.state_slots.bytes(chunk.kind, checksum_block_elements);
  }
  // Without the zeros that fill a chunk's last page.
  u64 content_bytes(const Chunk& chunk) const {
    return chunk.window == none ? chunk.bytes.value : plan_.state_slots.bytes(chunk.kind, chunk.elements);
  }
  u64 blocks(ChunkId id) const {
    return div_up(content_bytes(plan_.chunk(id)), block_bytes(plan_.chunk(id)));
  }
  u64 blocks_max() const { return blocks_max_; }

  // `hashes`: scratch with blocks_max() elements.
  u64 make_sum(ChunkId id, std::span<const std::byte> content, u64 seed, std::span<u64> hashes,
               CorePool& pool) const {
    const Chunk& chunk = plan_.chunk(id);
    return chunk_checksum(content.first(content_bytes(chunk)), block_bytes(chunk), seed,
                          hashes.first(blocks(id)), pool);
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
    bool zeros = false;    // the last change was a clearing
    u32 slot = 0;          // of the newest content
    u32 target = 0;        // slot of the write that has begun
    u32 held = none;       // slot that a hold keeps
    u32 committed = none;  // slot that the last commit counts on; none: there is no commit
    u64 committed_version = 0, committed_sum = 0;
    bool committed_zeros = false;
  };
  const Plan& plan_;
  std::vector<Entry> entries_;
  u64 blocks_max_ = 0;
};

}  // namespace tidepool
