// CommitLane makes commits of the state on disk: flushes the data, writes which slot of each chunk counts
// from now on, flushes that. It has a thread of its own, because a flush blocks.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "executor/shared/executor_common.h"
#include "io/state_journal.h"

namespace tidepool {

// CommitHold keeps in its slots what the last commit counts on, also while later commits are made: a save
// reads it. With two versions no commit may be made meanwhile. REQUIRES: the executor outlives it. THREADS:
// made and destroyed by the engine's thread.
class [[nodiscard]] CommitHold {
 public:
  CommitHold(ChunkLedger& ledger, std::span<const ChunkId> chunks) : ledger_(&ledger), chunks_(chunks) {
    for (const ChunkId chunk : chunks_) ledger_->hold(chunk);
  }
  CommitHold(CommitHold&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), chunks_(other.chunks_) {}
  CommitHold& operator=(CommitHold&&) = delete;
  ~CommitHold() {
    if (ledger_ == nullptr) return;
    for (const ChunkId chunk : chunks_) ledger_->release(chunk);
  }

 private:
  ChunkLedger* ledger_;
  std::span<const ChunkId> chunks_;
};

// CommittedState reaches the committed state at rest.
// REQUIRES: at rest (no op in flight); the plan keeps two versions or more.
// THREADS: the engine's thread.
class CommittedState {
 public:
  virtual ~CommittedState() = default;
  // Takes over what an earlier process committed (CommitRequest::marks): reads what does not rest on disk
  // from its slots. Content on disk is verified when it is first read. Blocks. Errors: io, if content that is
  // read now is not as it was committed.
  virtual Result<void> take_over() = 0;
  // Returns to the state of the last commit, which is of `step`, as take_over() does, whatever ops have
  // written since.
  virtual Result<void> roll_back(u64 step) = 0;
  // Writes what does not rest on disk to its slots, and makes a commit. Blocks.
  // RETURNS: false if the source supplies no payload for the step, so that there is no commit of it.
  virtual Result<bool> commit_at_rest(u64 step) = 0;
  // The last commit, without its payload. REQUIRES: there is a commit.
  virtual StateCommit last_commit() const = 0;
  // REQUIRES: there is a commit, and no other hold.
  virtual CommitHold hold_last_commit() = 0;
};

class CommitLane {
 public:
  // REQUIRES: common.request.commits is not null; `common` and `disk` outlive the lane.
  static Result<std::unique_ptr<CommitLane>> create(ExecutorCommon& common, Disk& disk);
  ~CommitLane();
  void stop();  // waits for the commit that is being made
  CommitLane(const CommitLane&) = delete;
  CommitLane& operator=(const CommitLane&) = delete;

  // Makes the file ready to be written to: writes the head of a new file, or makes durable what an earlier
  // process has left. Completions must reach on_disk().
  Result<void> begin_file();
  // THREADS: the engine's thread; fetches the payload.
  void submit(const Issue&);
  // As a commit op, but blocks. RETURNS: as CommittedState::commit_at_rest().
  Result<bool> commit_at_rest(u64 step);
  // Completions of requests with this tag belong to the lane.
  static constexpr u64 tag = u64{1} << 61;
  void on_disk(const DiskCompletion&);

  const std::vector<ChunkId>& chunks() const { return chunks_; }
  // REQUIRES: there is a commit, and none is being made.
  StateCommit last_commit() const;
  CommitHold hold_last_commit() { return {common_.ledger, chunks_}; }

 private:
  CommitLane(ExecutorCommon& common, Disk& disk);
  void loop();
  bool fetch_payload(u64 step);
  Result<void> make_commit();
  Result<void> write(u64 offset, u64 bytes);
  std::span<std::byte> commit() const {
    return {buffer_.get(), commit_bytes(chunks_.size(), payload_bytes_)};
  }

  ExecutorCommon& common_;
  Disk& disk_;
  const CommitRequest& request_;
  std::vector<ChunkId> chunks_;  // of the commit, in order
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> buffer_;  // page-aligned; holds the largest commit, or the head
  u64 buffer_bytes_ = 0;
  u64 sequence_ = 0;  // of the last commit
  // The commit that is being made.
  u64 step_ = 0, payload_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Issue> issue_;  // for the thread; the plan has one commit in flight
  std::optional<DiskCompletion> done_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tidepool
