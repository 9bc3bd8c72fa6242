// PieceQueue cuts requests into pieces, picks the next piece to transfer and interprets each piece's result.
// Every disk uses it, so all disks retry, continue and fail alike. A pure state machine: no thread, lock,
// clock or I/O.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "io/disk.h"

namespace tidepool {

// A piece fails after this many tries in a row without progress (EINTR, EAGAIN, nothing written).
inline constexpr u32 piece_stalls_max = 16;

struct Piece {
  u32 slot = 0;  // slot of the piece's request in PieceQueue
  DiskOp op{};
  u64 offset = 0;
  std::byte* memory = nullptr;
  u64 bytes = 0;
  u32 stalls = 0;  // tries in a row without progress
};

enum class PieceVerdict : u8 {
  again,     // transfer the piece once more: the piece now holds the remaining range
  done,      // other pieces of the request are still to come
  complete,  // its request has completed
};

// Requests of one operation begin in the order of arrival. Between reads and writes, the operation with fewer
// pieces in flight goes next, so neither starves behind the other, at any depth. All memory is taken by the
// constructor; only failures allocate (their message).
class PieceQueue {
 public:
  PieceQueue(u64 file_bytes, const DiskOptions&, std::string path);

  // REQUIRES: as Disk::submit.
  void push(const DiskRequest&);
  // RETURNS: false if nothing waits. The piece counts as in flight until finish() says done or complete.
  bool pop(Piece&);
  // `result` follows system calls: bytes moved, or minus errno. Sets `completion` if the verdict is complete.
  PieceVerdict finish(Piece&, i64 result, DiskCompletion& completion);

  bool waiting() const { return head_[0] != none || head_[1] != none; }
  u32 in_flight() const { return in_flight_[0] + in_flight_[1]; }
  bool idle() const { return !waiting() && in_flight() == 0; }
  u32 free_requests() const { return static_cast<u32>(free_.size()); }

 private:
  struct Slot {
    DiskRequest request;
    u64 cut = 0;  // bytes handed out as pieces so far
    u32 in_flight = 0;
    u64 failed_at = 0;  // offset of the error, if the request has failed
    u32 next = none;    // next slot in the queue of this operation
    DiskCompletion completion;
  };

  PieceVerdict land(Piece&, DiskCompletion&);
  void fail(Slot&, u64 offset, Error);
  void unlink_head(u32 op);

  u64 file_bytes_, piece_bytes_;
  std::string path_;
  std::vector<Slot> slots_;
  std::vector<u32> free_;
  std::array<u32, 2> head_{none, none}, tail_{none, none}, in_flight_{0, 0};  // by DiskOp
  u32 last_op_ = 1;
};

}  // namespace tidepool
