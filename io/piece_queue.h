// Cuts requests into pieces, decides whose piece goes next, and what a piece's result means. Every disk
// uses it, so they all retry, continue and fail alike. A pure state machine: no thread, lock, clock or I/O.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "io/disk.h"

namespace tidepool {

// A piece that made no progress (EINTR, EAGAIN, nothing written) this many times in a row has failed.
inline constexpr u32 piece_stalls_max = 16;

struct Piece {
  u32 slot = 0;  // of the request in PieceQueue
  DiskOp op{};
  u64 offset = 0;
  std::byte* memory = nullptr;
  u64 bytes = 0;
  u32 stalls = 0;  // tries in a row without progress
};

enum class PieceVerdict : u8 {
  again,     // transfer the piece once more: it now holds what is left
  done,      // more of its request is to come
  complete,  // its request has completed
};

// Requests of one operation begin in the order they came. Between reads and writes the operation with
// fewer pieces in flight goes next, so neither starves behind the other, at any depth.
// Takes all its memory when made; only failures allocate (their message).
class PieceQueue {
 public:
  PieceQueue(u64 file_bytes, const DiskOptions&, std::string path);

  // REQUIRES: as Disk::submit.
  void push(const DiskRequest&);
  // False if nothing waits. The piece counts as in flight until finish() says done or complete.
  bool pop(Piece&);
  // `result` as of a system call: bytes moved, or minus errno. `completion` is set if the verdict is
  // complete.
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
    u64 failed_at = 0;  // where its error is, once it has failed
    u32 next = none;    // in its operation's queue
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
