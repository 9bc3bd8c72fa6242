// The disk seam: whole-range reads and writes of one preallocated file, completed asynchronously.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tidepool/result.h"
#include "tidepool/types.h"

namespace tidepool {

enum class DiskOp : u8 { read, write };

struct DiskRequest {
  DiskOp op{};
  u64 offset = 0;                  // in the file; a multiple of frame_alignment
  std::span<std::byte> memory;     // whole 4 KiB pages, inside a registered arena
  u64 tag = 0;                     // comes back in the completion
};

struct DiskCompletion {
  u64 tag = 0;
  bool ok = true;
  Error error;         // names file, offset, length and operation; the caller adds the chunk
  u32 retries = 0;     // EINTR, EAGAIN and continued short transfers
};

// Called on the disk's own thread, once per request, in any order. Must not block.
using DiskSink = std::function<void(const DiskCompletion&)>;

struct DiskOptions {
  u32 queue_depth = 32;            // pieces in flight
  Bytes piece{1 * mib};            // a request is cut into pieces of this size
  std::vector<std::span<std::byte>> arenas;  // memory that requests will use; registered where possible
  std::vector<int> cpus;           // optional binding of the disk's thread
};

class Disk {
 public:
  virtual ~Disk() = default;
  // Queues a request. Never blocks, never fails: faults arrive as completions. Any thread may call.
  virtual void submit(const DiskRequest&) = 0;
  // Durably flushes everything completed so far.
  virtual Result<void> sync() = 0;
  // "io_uring, 32 deep, O_DIRECT, registered buffers" or why not: one line for people.
  virtual std::string describe() const = 0;
};

}  // namespace tidepool
