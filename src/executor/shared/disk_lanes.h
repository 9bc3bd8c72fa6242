// DiskLanes runs the two disk lanes: requests in flight, a checksum for every write, a check of every read.
//
//   write:  checksum (made by the update on the way, or here) -> disk -> done
//   read:   disk -> check -> done
//
// Requests complete in any order. Checksums run on the core pool, driven by one thread of DiskLanes, so
// neither the engine nor the disk's thread ever waits for them.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "executor/shared/commit_lane.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/state_at_rest.h"

namespace tidepool {

// A range of whole pages of a chunk at home on disk.
struct BlockRead {
  ChunkId chunk{};
  u64 offset = 0;  // from the chunk's start
  std::span<std::byte> memory;
};

class DiskLanes {
 public:
  // REQUIRES: `common` outlives the lanes.
  // Errors: the disk does not open.
  static Result<std::unique_ptr<DiskLanes>> create(ExecutorCommon&);
  ~DiskLanes();
  DiskLanes(const DiskLanes&) = delete;
  DiskLanes& operator=(const DiskLanes&) = delete;

  // Counts useful bytes of completed ops, without transfers at rest.
  // REQUIRES: the lane holds fewer than disk_depth ops.
  // THREADS: the engine's thread.
  void submit(const Issue&);

  // Reads ranges with a full queue, while ops run; counts their bytes. Blocks.
  // REQUIRES: of chunks that no commit counts on and no op writes.
  // THREADS: one at a time.
  // Errors: ErrorKind::io.
  Result<void> read_blocks(std::span<const BlockRead>);
  // RETURNS: in words, the place of a chunk's block that read_blocks() reads.
  std::string place_of_block(ChunkId, u64 offset) const;

  // Number of extra tries of disk transfers.
  u64 retries() const { return retries_.load(std::memory_order_relaxed); }
  // RETURNS: true if a transfer at rest has not come back; the destructor would wait for it.
  bool busy_at_rest();

  // Block.
  // REQUIRES: at rest.
  // Errors: ErrorKind::io if the disk does not answer.
  Result<void> read(ChunkId, const Frame&, std::span<std::byte> out);
  Result<void> clear(ChunkId, const Frame&);
  // Content in the host's arena is written from its place while the caller continues. Other content is
  // written before this returns.
  // REQUIRES: the content stays unchanged until end_write; at most writes_at_rest_max chunks are being
  // written.
  Result<void> begin_write(ChunkId, const Frame&, std::span<const std::byte> content);
  Result<void> end_write(ChunkId);
  // Transfers whole frames with a full queue, without checksums, to time the disk. Blocks.
  // REQUIRES: at rest.
  Result<void> transfer_raw(std::span<const RawTransfer>);
  const Disk* disk() const { return disk_.get(); }
  CommitLane* commits() const { return commit_lane_.get(); }  // null: the plan keeps one version

 private:
  struct Slot {
    Issue issue;
    ChunkId chunk{};
    Frame frame;                  // on disk
    std::span<std::byte> memory;  // in host
    Nanos started{};
  };
  // Tags of transfers at rest: one per half of the staging buffer, then one per write in place. Tags below
  // these are slot numbers; CommitLane::tag is another.
  static constexpr u64 at_rest_tag = u64{1} << 63, raw_tag = u64{1} << 62, blocks_tag = u64{1} << 60;
  struct Transfer {
    bool done = true;
    bool ok = true;
    Error error;
    ChunkId chunk{none};  // chunk of a write in place, until end_write
  };

  explicit DiskLanes(ExecutorCommon&);
  void on_disk(const DiskCompletion&);
  void checksum_loop();
  bool pop_checksum(u32& slot);
  void push_checksum(u32 slot);
  void check_or_make(Slot&, u32 number);
  void send(u32 slot, DiskOp);
  u64 offset_of(ChunkId, const Frame&, u32 slot) const;  // in the file
  u64 offset_of_newest(ChunkId id, const Frame& frame) const {
    return offset_of(id, frame, common_.ledger.slot(id));
  }
  u64 offset_to_write(ChunkId id, const Frame& frame) const {
    return offset_of(id, frame, common_.ledger.slot_to_write(id));
  }
  void finish(u32 slot);
  void fail(u32 slot, Error);
  void release(u32 slot);
  // At rest, the halves of the staging buffer alternate: one is transferred while the other is copied.
  std::span<std::byte> half(u64 piece, u64 bytes_left) const;
  void begin_transfer(DiskOp, u64 piece, u64 offset, u64 bytes_left);
  Result<void> end_transfer(u64 piece, ChunkId);
  Result<void> write_through_staging(ChunkId, const Frame&, std::span<const std::byte> content);
  void write_in_place(ChunkId, const Frame&, std::span<const std::byte> content);
  template <class Done>
  bool await(std::unique_lock<std::mutex>&, Done&&);
  Error hangs(const std::string& what) const;
  Error mismatch(ChunkId, const Frame&) const;
  Error named(const Error&, ChunkId) const;
  std::string chunk_name(ChunkId) const;

  ExecutorCommon& common_;
  std::vector<u64> hashes_, rest_hashes_;  // scratch of the checksum thread, and of transfers at rest
  std::atomic<u64> retries_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::vector<u32> free_;
  std::vector<u32> checksum_ring_;
  u64 checksum_head_ = 0, checksum_tail_ = 0;
  bool stop_ = false;

  std::mutex rest_mutex_;
  std::condition_variable rest_changed_;
  std::array<Transfer, 2 + writes_at_rest_max> transfers_;
  u64 raw_in_flight_ = 0;
  std::optional<Error> raw_error_;
  u64 blocks_in_flight_ = 0;  // of read_blocks()
  std::optional<Error> blocks_error_;
  bool hangs_ = false;  // the last wait at rest timed out

  std::thread checksum_thread_;
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<CommitLane> commit_lane_;
};

}  // namespace tidepool
