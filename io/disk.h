// Disk reads and writes whole ranges of one preallocated file and completes each request asynchronously.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

class SwapFile;

// Unit that a drive writes whole or not at all, whatever happens to its power.
inline constexpr u64 sector_bytes = 512;

enum class DiskOp : u8 { read, write };

struct DiskRequest {
  DiskOp op{};
  u64 offset = 0;               // in the file; a multiple of frame_alignment
  std::span<std::byte> memory;  // whole 4 KiB pages; inside an arena of DiskOptions if possible
  u64 tag = 0;                  // comes back in the completion
};

struct DiskCompletion {
  u64 tag = 0;
  bool ok = true;
  Error error;      // names file, offset, length, operation and errno; the caller adds the chunk
  u32 retries = 0;  // EINTR, EAGAIN and continued short transfers
};

// DiskSink receives each completion once, in any order. The bytes of a read are visible to the sink.
// REQUIRES: must not block; may call submit.
// THREADS: called on a thread of the disk, never twice at the same time.
using DiskSink = std::function<void(const DiskCompletion&)>;

struct DiskOptions {
  u32 queue_depth = 32;     // pieces in flight
  Bytes piece{1 * mib};     // a request is cut into pieces of this size
  u32 max_requests = 4096;  // submitted and not yet completed; their memory is taken when the disk is created
  std::vector<std::span<std::byte>> arenas;  // memory that requests will use; registered where possible
  std::vector<int> cpus;                     // optional binding of the disk's threads
};

inline constexpr u32 queue_depth_max = 1024;

class Disk {
 public:
  // Waits until everything submitted has completed (the sink is still called).
  virtual ~Disk() = default;
  // Queues a request. Never blocks on the device and never fails: faults arrive as completions. A failed
  // request leaves its memory (read) or its range (write) undefined.
  // REQUIRES: fewer than max_requests in progress; range inside the file; no overlap with a request in
  // progress unless both read.
  // THREADS: any thread may call.
  virtual void submit(const DiskRequest&) = 0;
  // Flushes everything completed so far to durable storage. Blocks.
  // THREADS: any thread may call.
  virtual Result<void> sync() = 0;
  // Makes the range read as zeros from now on; without writing zeros if the file system can do that. Blocks.
  // REQUIRES: as submit.
  // THREADS: any thread may call.
  // Errors: ErrorKind::io.
  virtual Result<void> clear(u64 offset, Bytes) = 0;
  // One line for people: "io_uring, 32 deep, O_DIRECT, registered buffers", or the reason why not.
  virtual std::string describe() const = 0;
};

// Opens a disk whose completions go to the given sink.
using OpenDisk = std::function<Result<std::unique_ptr<Disk>>(DiskSink)>;

enum class DiskBackend : u8 {
  automatic,  // io_uring, with threads as fallback if the kernel refuses it; describe() then says why
  io_uring,   // an error if the kernel refuses it
  threads,    // pread and pwrite on up to 8 threads
};

// REQUIRES: the file and the arenas outlive the disk.
Result<std::unique_ptr<Disk>> create_disk(SwapFile&, DiskBackend, const DiskOptions&, DiskSink);

}  // namespace tidepool
