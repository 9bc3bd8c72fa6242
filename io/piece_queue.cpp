#include "io/piece_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "io/disk_error.h"

namespace tidepool {

PieceQueue::PieceQueue(u64 file_bytes, const DiskOptions& options, std::string path)
    : file_bytes_(file_bytes), piece_bytes_(options.piece.value), path_(std::move(path)) {
  CHECK(piece_bytes_ > 0 && piece_bytes_ % frame_alignment == 0, piece_bytes_);
  CHECK(options.max_requests > 0);
  slots_.resize(options.max_requests);
  free_.reserve(options.max_requests);
  for (u32 i = options.max_requests; i > 0; --i) free_.push_back(i - 1);
}

void PieceQueue::push(const DiskRequest& request) {
  CHECK(!free_.empty(), slots_.size());
  CHECK(request.offset % frame_alignment == 0, request.offset);
  CHECK(!request.memory.empty() && request.memory.size() % frame_alignment == 0, request.memory.size());
  CHECK(reinterpret_cast<std::uintptr_t>(request.memory.data()) % frame_alignment == 0);
  CHECK(request.offset <= file_bytes_ && request.memory.size() <= file_bytes_ - request.offset,
        request.offset, request.memory.size(), file_bytes_);
  u32 slot = free_.back();
  free_.pop_back();
  slots_[slot].request = request;
  slots_[slot].cut = 0;
  slots_[slot].next = none;
  slots_[slot].completion.tag = request.tag;
  u32 op = static_cast<u32>(request.op);
  if (head_[op] == none)
    head_[op] = slot;
  else
    slots_[tail_[op]].next = slot;
  tail_[op] = slot;
}

bool PieceQueue::pop(Piece& piece) {
  if (!waiting()) return false;
  u32 op = 1 - last_op_;  // ties alternate between operations, so at depth 1 reads and writes take turns
  if (in_flight_[op] > in_flight_[1 - op]) op = 1 - op;
  if (head_[op] == none) op = 1 - op;
  last_op_ = op;

  u32 index = head_[op];
  Slot& slot = slots_[index];
  u64 bytes = std::min(piece_bytes_, slot.request.memory.size() - slot.cut);
  piece = {.slot = index,
           .op = slot.request.op,
           .offset = slot.request.offset + slot.cut,
           .memory = slot.request.memory.data() + slot.cut,
           .bytes = bytes};
  slot.cut += bytes;
  ++slot.in_flight;
  ++in_flight_[op];
  if (slot.cut == slot.request.memory.size()) unlink_head(op);
  return true;
}

void PieceQueue::unlink_head(u32 op) { head_[op] = slots_[head_[op]].next; }

PieceVerdict PieceQueue::finish(Piece& piece, i64 result, DiskCompletion& completion) {
  Slot& slot = slots_[piece.slot];
  CHECK(result <= static_cast<i64>(piece.bytes), result, piece.bytes);
  if (result == static_cast<i64>(piece.bytes)) return land(piece, completion);
  // The request has failed already. Its message names the lowest failing offset, whatever order pieces finish
  // in.
  if (!slot.completion.ok && piece.offset > slot.failed_at) return land(piece, completion);

  bool retriable = result == -EINTR || result == -EAGAIN || (result == 0 && piece.op == DiskOp::write);
  if (result <= 0 && !retriable) {
    fail(slot, piece.offset,
         result == 0 ? disk_end_of_file(path_, piece.offset, piece.bytes)
                     : disk_error(path_, piece.op, piece.offset, piece.bytes, static_cast<int>(-result)));
    return land(piece, completion);
  }
  // O_DIRECT can only resume at a whole page, so a partly moved page is transferred again.
  u64 moved = result > 0 ? static_cast<u64>(result) / frame_alignment * frame_alignment : 0;
  piece.offset += moved;
  piece.memory += moved;
  piece.bytes -= moved;
  piece.stalls = moved > 0 ? 0 : piece.stalls + 1;
  ++slot.completion.retries;
  if (piece.stalls < piece_stalls_max) return PieceVerdict::again;
  fail(slot, piece.offset,
       disk_error(path_, piece.op, piece.offset, piece.bytes,
                  result < 0 ? static_cast<int>(-result) : EAGAIN));
  return land(piece, completion);
}

void PieceQueue::fail(Slot& slot, u64 offset, Error error) {
  slot.completion.ok = false;
  slot.failed_at = offset;
  slot.completion.error = std::move(error);
  if (slot.cut == slot.request.memory.size()) return;
  // Cancels the rest of the request, which has not begun. The request heads its queue, because requests are
  // cut one after another.
  u32 op = static_cast<u32>(slot.request.op);
  CHECK(&slots_[head_[op]] == &slot);
  slot.cut = slot.request.memory.size();
  unlink_head(op);
}

PieceVerdict PieceQueue::land(Piece& piece, DiskCompletion& completion) {
  Slot& slot = slots_[piece.slot];
  --in_flight_[static_cast<u32>(piece.op)];
  --slot.in_flight;
  if (slot.in_flight > 0 || slot.cut < slot.request.memory.size()) return PieceVerdict::done;
  completion = std::move(slot.completion);
  slot.completion = {};
  free_.push_back(piece.slot);
  return PieceVerdict::complete;
}

}  // namespace tidepool
