// DiskLanes passes each request between the disk and the thread that makes and checks checksums.
#include "executor/shared/disk_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/process/start_thread.h"

namespace tidepool {

Result<std::unique_ptr<DiskLanes>> DiskLanes::create(ExecutorCommon& common) {
  std::unique_ptr<DiskLanes> lanes(new DiskLanes(common));
  DiskLanes* raw = lanes.get();
  TRY_ASSIGN(lanes->checksum_thread_, start_thread("tp-checksum", [raw] { raw->checksum_loop(); }));
  if (const OpenDisk& open = common.request.open_disk) {
    TRY_ASSIGN(lanes->disk_, open([raw](const DiskCompletion& completion) { raw->on_disk(completion); }));
  }
  if (common.plan.versions > 1) {
    CHECK(lanes->disk_ != nullptr && common.request.commits != nullptr, common.plan.versions);
    TRY_ASSIGN(lanes->commit_lane_, CommitLane::create(common, *lanes->disk_));
    TRY(lanes->commit_lane_->begin_file());
  }
  return lanes;
}

DiskLanes::DiskLanes(ExecutorCommon& common) : common_(common) {
  CHECK(common.request.staging.size() % (2 * frame_alignment) == 0, common.request.staging.size());
  hashes_.resize(common.ledger.blocks_max());
  rest_hashes_.resize(common.ledger.blocks_max());
  slots_.resize(u64{2} * common.request.disk_depth);
  checksum_ring_.resize(slots_.size());
  for (u32 i = 0; i < slots_.size(); ++i) free_.push_back(i);
}

DiskLanes::~DiskLanes() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (checksum_thread_.joinable()) checksum_thread_.join();
  if (commit_lane_) commit_lane_->stop();
  disk_.reset();  // waits for requests in flight, so the sink's slots must still exist
}

void DiskLanes::submit(const Issue& issue) {
  if (issue.get().kind == OpKind::commit) return commit_lane_->submit(issue);
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const bool read = issue.get().kind == OpKind::read;
  const Frame& disk = operands[read ? 0 : 1].frame;
  const Frame& host = operands[read ? 1 : 0].frame;
  CHECK(disk_ && disk.tier == Tier::disk && disk.bytes == host.bytes, issue.sequence, disk.bytes.value);
  u32 number = 0;
  {
    const std::scoped_lock lock(mutex_);
    CHECK(!free_.empty(), issue.sequence);
    number = free_.back();
    free_.pop_back();
  }
  slots_[number] = {.issue = issue,
                    .chunk = operands[0].first,
                    .frame = disk,
                    .memory = common_.memory.at(host),
                    .started = common_.clock.now()};
  const ChunkId chunk = slots_[number].chunk;
  if (read) {
    CHECK(common_.ledger.written(chunk), chunk_name(chunk));
    return send(number, DiskOp::read);
  }
  common_.ledger.begin_write(chunk);
  if (common_.ledger.prepared(chunk))
    send(number, DiskOp::write);
  else
    push_checksum(number);
}

void DiskLanes::send(u32 number, DiskOp op) {
  const Slot& slot = slots_[number];
  const u64 offset =
      op == DiskOp::read ? offset_of_newest(slot.chunk, slot.frame) : offset_to_write(slot.chunk, slot.frame);
  disk_->submit({.op = op, .offset = offset, .memory = slot.memory, .tag = number});
}

u64 DiskLanes::offset_of(ChunkId chunk, const Frame& frame, u32 slot) const {
  if (commit_lane_ == nullptr) return frame.offset;
  const u64 begin = common_.request.commits->head.frames_begin() + frame.offset;
  return common_.plan.is_committed(chunk) ? begin + slot * common_.plan.second_slot.value : begin;
}

void DiskLanes::on_disk(const DiskCompletion& completion) {
  retries_.fetch_add(completion.retries, std::memory_order_relaxed);
  if (completion.tag >= at_rest_tag) {
    const std::scoped_lock lock(rest_mutex_);
    Transfer& transfer = transfers_[completion.tag - at_rest_tag];
    transfer.done = true;
    transfer.ok = completion.ok;
    transfer.error = completion.error;
    rest_changed_.notify_all();
    return;
  }
  if (completion.tag == CommitLane::tag) return commit_lane_->on_disk(completion);
  if (completion.tag >= raw_tag) {
    const std::scoped_lock lock(rest_mutex_);
    --raw_in_flight_;
    if (!completion.ok && !raw_error_) raw_error_ = completion.error;
    rest_changed_.notify_all();
    return;
  }
  if (completion.tag >= blocks_tag) {
    const std::scoped_lock lock(rest_mutex_);
    --blocks_in_flight_;
    const ChunkId chunk{static_cast<u32>(completion.tag - blocks_tag)};
    if (!completion.ok && !blocks_error_) blocks_error_ = named(completion.error, chunk);
    rest_changed_.notify_all();
    return;
  }
  const u32 number = static_cast<u32>(completion.tag);
  const Slot& slot = slots_[number];
  if (!completion.ok) {
    fail(number, named(completion.error, slot.chunk));
  } else if (slot.issue.get().kind == OpKind::read) {
    push_checksum(number);
  } else {
    common_.ledger.end_write(slot.chunk);
    finish(number);
  }
}

// ---- checksums

void DiskLanes::push_checksum(u32 number) {
  {
    const std::scoped_lock lock(mutex_);
    checksum_ring_[checksum_head_++ % checksum_ring_.size()] = number;
  }
  changed_.notify_all();
}

bool DiskLanes::pop_checksum(u32& number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return checksum_head_ != checksum_tail_ || stop_; });
  if (checksum_head_ == checksum_tail_) return false;
  number = checksum_ring_[checksum_tail_++ % checksum_ring_.size()];
  return true;
}

void DiskLanes::checksum_loop() {
  u32 number = 0;
  while (pop_checksum(number)) check_or_make(slots_[number], number);
}

void DiskLanes::check_or_make(Slot& slot, u32 number) {
  ChunkLedger& ledger = common_.ledger;
  if (slot.issue.get().kind == OpKind::write) {
    ledger.prepare(slot.chunk, ledger.make_sum(slot.chunk, slot.memory, ledger.next_seed(slot.chunk), hashes_,
                                               common_.pool));
    return send(number, DiskOp::write);
  }
  if (!ledger.is_current(slot.chunk, slot.memory, hashes_, common_.pool))
    return fail(number, mismatch(slot.chunk, slot.frame));
  finish(number);
}

// ---- the end of an op

void DiskLanes::finish(u32 number) {
  const Slot slot = slots_[number];
  const LinkKind link = slot.issue.get().kind == OpKind::read ? LinkKind::disk_read : LinkKind::disk_write;
  common_.moved.add(link, slot.memory.size());
  release(number);
  common_.board.post(slot.issue.sequence, slot.started, common_.clock.now());
}

void DiskLanes::fail(u32 number, Error error) {
  const Slot slot = slots_[number];
  release(number);
  common_.board.post_error(slot.issue.sequence, slot.started, common_.clock.now(), std::move(error));
}

void DiskLanes::release(u32 number) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(number);
}

// ---- at rest

std::span<std::byte> DiskLanes::half(u64 piece, u64 bytes_left) const {
  const u64 half = common_.request.staging.size() / 2;
  return common_.request.staging.subspan(piece % 2 * half, std::min(half, bytes_left));
}

void DiskLanes::begin_transfer(DiskOp op, u64 piece, u64 offset, u64 bytes_left) {
  {
    const std::scoped_lock lock(rest_mutex_);
    transfers_[piece % 2].done = false;
  }
  disk_->submit(
      {.op = op, .offset = offset, .memory = half(piece, bytes_left), .tag = at_rest_tag + piece % 2});
}

// RETURNS: false if the disk hangs. After one timeout, later waits do not wait again.
template <class Done>
bool DiskLanes::await(std::unique_lock<std::mutex>& lock, Done&& done) {
  // Waits in short pieces: a wait that lasts minutes because this process was stopped counts as one short
  // piece.
  constexpr u64 wait_ns_max = 250'000'000;
  u64 left_ns = hangs_ ? 0 : common_.request.rest_patience.value;
  while (!done()) {
    hangs_ = left_ns == 0;
    if (hangs_) return false;
    const u64 now_ns = std::min(left_ns, wait_ns_max);
    if (!rest_changed_.wait_for(lock, std::chrono::nanoseconds(now_ns), done)) left_ns -= now_ns;
  }
  hangs_ = false;
  return true;
}

Result<void> DiskLanes::end_transfer(u64 piece, ChunkId chunk) {
  std::unique_lock lock(rest_mutex_);
  const Transfer& transfer = transfers_[piece % 2];
  if (!await(lock, [&] { return transfer.done; })) return hangs(chunk_name(chunk));
  if (!transfer.ok) return named(transfer.error, chunk);
  return {};
}

bool DiskLanes::busy_at_rest() {
  const std::scoped_lock lock(rest_mutex_);
  return raw_in_flight_ > 0 ||
         std::any_of(transfers_.begin(), transfers_.end(), [](const Transfer& t) { return !t.done; });
}

Result<void> DiskLanes::read(ChunkId id, const Frame& frame, std::span<std::byte> out) {
  CHECK(disk_ && !common_.request.staging.empty() && out.size() == frame.bytes.value, out.size(),
        frame.bytes.value);
  CHECK(common_.ledger.written(id), chunk_name(id));
  const u64 step = common_.request.staging.size() / 2, pieces = div_up(out.size(), step);
  Result<void> result;
  const u64 begin = offset_of_newest(id, frame);
  begin_transfer(DiskOp::read, 0, begin, out.size());
  for (u64 piece = 0; piece < pieces; ++piece) {
    const u64 at = piece * step, next = at + step;
    const bool more = result && piece + 1 < pieces;
    if (more) begin_transfer(DiskOp::read, piece + 1, begin + next, out.size() - next);
    if (Result<void> ended = end_transfer(piece, id); !ended) result = ended;
    const std::span<std::byte> bytes = half(piece, out.size() - at);
    std::memcpy(out.data() + at, bytes.data(), bytes.size());
    if (!more && !result) break;
  }
  TRY(result);
  if (!common_.ledger.is_current(id, out, rest_hashes_, common_.pool)) return mismatch(id, frame);
  return {};
}

Result<void> DiskLanes::clear(ChunkId id, const Frame& frame) {
  CHECK(disk_ != nullptr, chunk_name(id));
  common_.ledger.begin_write(id);
  if (Result<void> cleared = disk_->clear(offset_to_write(id, frame), frame.bytes); !cleared)
    return named(cleared.error(), id);
  common_.ledger.cleared(id);
  return {};
}

Result<void> DiskLanes::begin_write(ChunkId id, const Frame& frame, std::span<const std::byte> content) {
  CHECK(disk_ && !common_.request.staging.empty() && content.size() == frame.bytes.value, content.size(),
        frame.bytes.value);
  common_.ledger.prepare(
      id, common_.ledger.make_sum(id, content, common_.ledger.next_seed(id), rest_hashes_, common_.pool));
  common_.ledger.begin_write(id);
  const bool whole_pages = reinterpret_cast<std::uintptr_t>(content.data()) % frame_alignment == 0 &&
                           content.size() % frame_alignment == 0;
  if (!whole_pages || !common_.memory.in_host(content)) return write_through_staging(id, frame, content);
  write_in_place(id, frame, content);
  return {};
}

void DiskLanes::write_in_place(ChunkId id, const Frame& frame, std::span<const std::byte> content) {
  u64 number = 0;
  {
    const std::scoped_lock lock(rest_mutex_);
    const auto at = std::find_if(transfers_.begin() + 2, transfers_.end(),
                                 [](const Transfer& t) { return t.chunk == ChunkId{none}; });
    CHECK(at != transfers_.end(), chunk_name(id));
    *at = {.done = false, .chunk = id};
    number = static_cast<u64>(at - transfers_.begin());
  }
  const std::span<std::byte> memory(const_cast<std::byte*>(content.data()),
                                    content.size());  // a write reads it
  disk_->submit({.op = DiskOp::write,
                 .offset = offset_to_write(id, frame),
                 .memory = memory,
                 .tag = at_rest_tag + number});
}

Result<void> DiskLanes::end_write(ChunkId id) {
  std::unique_lock lock(rest_mutex_);
  const auto at = std::find_if(transfers_.begin() + 2, transfers_.end(),
                               [&](const Transfer& t) { return t.chunk == id; });
  if (at == transfers_.end()) return {};  // written completely by begin_write
  if (!await(lock, [&] { return at->done; })) return hangs(chunk_name(id));
  const Transfer transfer = std::exchange(*at, {});
  if (!transfer.ok) return named(transfer.error, id);
  common_.ledger.end_write(id);
  return {};
}

Result<void> DiskLanes::write_through_staging(ChunkId id, const Frame& frame,
                                              std::span<const std::byte> content) {
  const u64 step = common_.request.staging.size() / 2, pieces = div_up(content.size(), step);
  transfers_[0] = transfers_[1] = {};
  Result<void> result;
  for (u64 piece = 0; piece < pieces; ++piece) {
    const u64 at = piece * step;
    // Frees its half of the staging buffer.
    if (Result<void> ended = end_transfer(piece, id); !ended) result = ended;
    if (!result) break;
    const std::span<std::byte> bytes = half(piece, content.size() - at);
    std::memcpy(bytes.data(), content.data() + at, bytes.size());
    begin_transfer(DiskOp::write, piece, offset_to_write(id, frame) + at, content.size() - at);
  }
  for (const u64 piece : {u64{0}, u64{1}}) {
    if (Result<void> ended = end_transfer(piece, id); !ended && result) result = ended;
  }
  TRY(result);
  common_.ledger.end_write(id);
  return {};
}

Result<void> DiskLanes::transfer_raw(std::span<const RawTransfer> transfers) {
  CHECK(disk_ != nullptr, transfers.size());
  std::unique_lock lock(rest_mutex_);
  for (const RawTransfer& t : transfers) {
    if (!await(lock, [&] { return raw_in_flight_ < common_.request.disk_depth; }))
      return hangs("timing the disk");
    ++raw_in_flight_;
    lock.unlock();
    disk_->submit(
        {.op = t.op,
         .offset = offset_of(t.chunk, common_.plan.homes[index(t.chunk)], common_.ledger.free_slot(t.chunk)),
         .memory = t.memory,
         .tag = raw_tag});
    lock.lock();
  }
  if (!await(lock, [&] { return raw_in_flight_ == 0; })) return hangs("timing the disk");
  if (std::optional<Error> error = std::exchange(raw_error_, std::nullopt)) return *std::move(error);
  return {};
}

Result<void> DiskLanes::read_blocks(std::span<const BlockRead> reads) {
  CHECK(disk_ != nullptr, reads.size());
  const u64 depth = u64{2} * common_.request.disk_depth;
  u64 bytes = 0;
  std::unique_lock lock(rest_mutex_);
  const auto answered = [&](u64 most) { return await(lock, [&] { return blocks_in_flight_ <= most; }); };
  for (const BlockRead& read : reads) {
    if (!answered(depth - 1)) return hangs(chunk_name(read.chunk));
    ++blocks_in_flight_;
    bytes += read.memory.size();
    lock.unlock();
    disk_->submit(
        {.op = DiskOp::read,
         .offset = offset_of_newest(read.chunk, common_.plan.homes[index(read.chunk)]) + read.offset,
         .memory = read.memory,
         .tag = blocks_tag + index(read.chunk)});
    lock.lock();
  }
  if (!answered(0)) return hangs(chunk_name(reads.back().chunk));
  if (std::optional<Error> error = std::exchange(blocks_error_, std::nullopt)) return *std::move(error);
  common_.moved.add(LinkKind::disk_read, bytes);
  return {};
}

// ---- in words

std::string DiskLanes::place_of_block(ChunkId id, u64 offset) const {
  return fmt::format("{} bytes at offset {} of the swap file on {}", frame_alignment,
                     offset_of_newest(id, common_.plan.homes[index(id)]) + offset, disk_->describe());
}

std::string DiskLanes::chunk_name(ChunkId id) const {
  const Chunk& chunk = common_.plan.chunk(id);
  if (chunk.window != none) {
    return fmt::format("{} of {} cut {}", common_.plan.state_slots.name(chunk.kind),
                       common_.graph.windows[chunk.window].name, chunk.cut);
  }
  if (chunk.block != none) {
    return fmt::format("{} of {} micro-batch {}", name(chunk.kind), common_.graph.blocks[chunk.block].name,
                       chunk.instance);
  }
  return fmt::format("{} {}", name(chunk.kind), chunk.instance);
}

Error DiskLanes::named(const Error& error, ChunkId id) const {
  return {error.kind, fmt::format("{}: {}", chunk_name(id), error.message)};
}

Error DiskLanes::hangs(const std::string& what) const {
  return {ErrorKind::io,
          fmt::format("{}: the disk has not answered for {} s ({}): look at `dmesg`; once it works again, "
                      "resume from the last checkpoint",
                      what, common_.request.rest_patience.value / 1'000'000'000, disk_->describe())};
}

Error DiskLanes::mismatch(ChunkId id, const Frame& frame) const {
  const bool committed = common_.plan.is_committed(id);
  return {ErrorKind::io,
          fmt::format(
              "checksum mismatch reading {} (version {}, {} bytes at offset {} of the swap file on {}): the "
              "disk returned stale or damaged data. Checkpoints are not touched: check the disk (dmesg, "
              "smartctl), then {}, with memory.swap_dir on another disk if it happens again",
              chunk_name(id), common_.ledger.version(id), frame.bytes.value, offset_of_newest(id, frame),
              disk_->describe(),
              committed ? "resume; if the committed state itself is damaged, move the swap file away and "
                          "resume: the message then names the last checkpoint, if there is one"
                        : "resume")};
}

}  // namespace tidepool
