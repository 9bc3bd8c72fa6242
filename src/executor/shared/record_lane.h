// RecordLane makes records of the state on disk: flushes the data, writes which slot of each chunk counts
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

// RecordHold keeps in its slots what the last record counts on, also while later records are made: a save
// reads it. With two versions no record may be made meanwhile. REQUIRES: the executor outlives it. THREADS:
// made and destroyed by the engine's thread.
class [[nodiscard]] RecordHold {
 public:
  RecordHold(ChunkLedger& ledger, std::span<const ChunkId> chunks) : ledger_(&ledger), chunks_(chunks) {
    for (const ChunkId chunk : chunks_) ledger_->hold(chunk);
  }
  RecordHold(RecordHold&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), chunks_(other.chunks_) {}
  RecordHold& operator=(RecordHold&&) = delete;
  ~RecordHold() {
    if (ledger_ == nullptr) return;
    for (const ChunkId chunk : chunks_) ledger_->release(chunk);
  }

 private:
  ChunkLedger* ledger_;
  std::span<const ChunkId> chunks_;
};

// RecordedState reaches the recorded state at rest.
// REQUIRES: at rest (no op in flight); the plan keeps two versions or more.
// THREADS: the engine's thread.
class RecordedState {
 public:
  virtual ~RecordedState() = default;
  // Takes over what an earlier process recorded (RecordRequest::marks): reads what does not rest on disk
  // from its slots. Content on disk is verified when it is first read. Blocks. Errors: io, if content that is
  // read now is not as it was recorded.
  virtual Result<void> take_over() = 0;
  // Returns to the state of the last record, which is of `step`, as take_over() does, whatever ops have
  // written since.
  virtual Result<void> roll_back(u64 step) = 0;
  // Writes what does not rest on disk to its slots, and makes a record. Blocks.
  // RETURNS: false if the source supplies no payload for the step, so that there is no record of it.
  virtual Result<bool> record_at_rest(u64 step) = 0;
  // The last record, without its payload. REQUIRES: there is a record.
  virtual StateRecord last_record() const = 0;
  // REQUIRES: there is a record, and no other hold.
  virtual RecordHold hold_last_record() = 0;
};

class RecordLane {
 public:
  // REQUIRES: common.request.records is not null; `common` and `disk` outlive the lane.
  static Result<std::unique_ptr<RecordLane>> create(ExecutorCommon& common, Disk& disk);
  ~RecordLane();
  void stop();  // waits for the record that is being made
  RecordLane(const RecordLane&) = delete;
  RecordLane& operator=(const RecordLane&) = delete;

  // Makes the file ready to be written to: writes the head of a new file, or makes durable what an earlier
  // process has left. Completions must reach on_disk().
  Result<void> begin_file();
  // THREADS: the engine's thread; fetches the payload.
  void submit(const Issue&);
  // As a record op, but blocks. RETURNS: as RecordedState::record_at_rest().
  Result<bool> record_at_rest(u64 step);
  // Completions of requests with this tag belong to the lane.
  static constexpr u64 tag = u64{1} << 61;
  void on_disk(const DiskCompletion&);

  const std::vector<ChunkId>& chunks() const { return chunks_; }
  // REQUIRES: there is a record, and none is being made.
  StateRecord last_record() const;
  RecordHold hold_last_record() { return {common_.ledger, chunks_}; }

 private:
  RecordLane(ExecutorCommon& common, Disk& disk);
  void loop();
  bool fetch_payload(u64 step);
  Result<void> make_record();
  Result<void> write(u64 offset, u64 bytes);
  std::span<std::byte> record() const {
    return {buffer_.get(), record_bytes(chunks_.size(), payload_bytes_)};
  }

  ExecutorCommon& common_;
  Disk& disk_;
  const RecordRequest& request_;
  std::vector<ChunkId> chunks_;  // of the record, in order
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> buffer_;  // page-aligned; holds the largest record, or the head
  u64 buffer_bytes_ = 0;
  u64 sequence_ = 0;  // of the last record
  // The record that is being made.
  u64 step_ = 0, payload_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Issue> issue_;  // for the thread; the plan has one record in flight
  std::optional<DiskCompletion> done_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tidepool
