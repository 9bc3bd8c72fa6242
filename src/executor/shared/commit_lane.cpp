#include "executor/shared/commit_lane.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/process/start_thread.h"

namespace tidepool {

void CommitLane::Free::operator()(std::byte* memory) const { std::free(memory); }

CommitLane::CommitLane(ExecutorCommon& common, Disk& disk)
    : common_(common), disk_(disk), request_(*common.request.commits) {
  for (u32 id = 0; id < common.plan.chunks.size(); ++id)
    if (common.plan.is_committed(ChunkId{id})) chunks_.push_back(ChunkId{id});
  CHECK(common.plan.versions <= journal_slots_max(request_.head.format), common.plan.versions);
  CHECK(request_.marks.empty() || request_.marks.size() == chunks_.size(), request_.marks.size(),
        chunks_.size());
  for (u64 i = 0; i < request_.marks.size(); ++i) common.ledger.take_over(chunks_[i], request_.marks[i]);
  buffer_bytes_ = std::max(request_.head.area_bytes, request_.head.areas_begin());
  buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(frame_alignment, buffer_bytes_)));
  std::memset(buffer_.get(), 0, buffer_bytes_);
}

Result<std::unique_ptr<CommitLane>> CommitLane::create(ExecutorCommon& common, Disk& disk) {
  std::unique_ptr<CommitLane> lane(new CommitLane(common, disk));
  CommitLane* raw = lane.get();
  lane->sequence_ = lane->request_.sequence;
  TRY_ASSIGN(lane->thread_, start_thread("tp-commit", [raw] { raw->loop(); }));
  return lane;
}

// The writes of an earlier process may still be in the drive's cache, its last commit too: flushed before
// anything overwrites what the commit before that counts on. The first sector of a head goes last, once the
// rest is durable. So a power cut leaves the whole head, or a file that is none of ours, but never a damaged
// head in a file in which nothing was committed yet.
Result<void> CommitLane::begin_file() {
  if (!request_.writes_head) return disk_.sync();
  const u64 bytes = request_.head.areas_begin();
  encode_head(request_.head, {buffer_.get(), bytes});
  std::array<std::byte, sector_bytes> first{};
  std::swap_ranges(first.begin(), first.end(), buffer_.get());
  TRY(write(0, bytes));
  TRY(disk_.sync());
  std::swap_ranges(first.begin(), first.end(), buffer_.get());
  TRY(write(0, frame_alignment));
  return disk_.sync();
}

CommitLane::~CommitLane() { stop(); }

void CommitLane::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CommitLane::submit(const Issue& issue) {
  if (!fetch_payload(issue.step)) {
    const Nanos now = common_.clock.now();
    return common_.board.post(issue.sequence, now, now);
  }
  {
    const std::scoped_lock lock(mutex_);
    CHECK(!issue_, issue.sequence);
    issue_ = issue;
  }
  changed_.notify_all();
}

Result<bool> CommitLane::commit_at_rest(u64 step) {
  if (!fetch_payload(step)) return false;
  TRY(make_commit());
  return true;
}

bool CommitLane::fetch_payload(u64 step) {
  std::span<const std::byte> payload;
  if (request_.source != nullptr) {
    const std::optional<std::span<const std::byte>> given = request_.source->payload(step);
    if (!given) return false;
    payload = *given;
  }
  const u64 bytes = commit_bytes(chunks_.size(), payload.size());
  CHECK(bytes <= request_.head.area_bytes, bytes, request_.head.area_bytes);
  step_ = step;
  payload_bytes_ = payload.size();
  encode_commit_begin(commit(), sequence_ + 1, step, chunks_.size(), payload_bytes_);
  if (!payload.empty())
    std::memcpy(commit().data() + commit_marks_begin + chunks_.size() * commit_mark_bytes, payload.data(),
                payload.size());
  return true;
}

void CommitLane::loop() {
  while (true) {
    Issue issue;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return issue_.has_value() || stop_; });
      if (!issue_) return;
      issue = *issue_;
    }
    const Nanos started = common_.clock.now();
    Result<void> made = make_commit();
    {
      const std::scoped_lock lock(mutex_);
      issue_.reset();
    }
    if (made)
      common_.board.post(issue.sequence, started, common_.clock.now());
    else
      common_.board.post_error(issue.sequence, started, common_.clock.now(), made.error());
  }
}

StateCommit CommitLane::last_commit() const {
  StateCommit commit{.sequence = sequence_, .step = step_, .chunks = {}, .payload = {}};
  for (const ChunkId chunk : chunks_) commit.chunks.push_back(common_.ledger.committed_mark(chunk));
  return commit;
}

// The data must be durable before a commit counts on it, and the commit before anything overwrites what the
// commit before it counts on.
Result<void> CommitLane::make_commit() {
  TRY(disk_.sync());
  for (u64 i = 0; i < chunks_.size(); ++i) encode_mark(commit(), i, common_.ledger.mark(chunks_[i]));
  seal_commit(commit());
  TRY(write(request_.head.area(sequence_ + 1), round_up(commit().size(), frame_alignment)));
  TRY(disk_.sync());
  ++sequence_;
  for (const ChunkId chunk : chunks_) common_.ledger.committed(chunk);
  return {};
}

Result<void> CommitLane::write(u64 offset, u64 bytes) {
  disk_.submit({.op = DiskOp::write, .offset = offset, .memory = {buffer_.get(), bytes}, .tag = tag});
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_.has_value(); });
  const DiskCompletion done = *std::exchange(done_, std::nullopt);
  if (done.ok) return {};
  return Error{done.error.kind, "committing the state: " + done.error.message};
}

void CommitLane::on_disk(const DiskCompletion& completion) {
  {
    const std::scoped_lock lock(mutex_);
    done_ = completion;
  }
  changed_.notify_all();
}

}  // namespace tidepool
