// DiskLoad is a steady load on a disk, for benchmarks: sequential, always enough in flight to fill the queue.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>

#include "io/arena.h"
#include "io/disk.h"
#include "io/swap_file.h"

namespace tidepool {

enum class DiskPattern : u8 { read, write, mixed };  // mixed: as many bytes read as written
inline constexpr u32 disk_pattern_count = 3;

constexpr std::string_view name(DiskPattern pattern) {
  constexpr std::array<std::string_view, disk_pattern_count> names = {"read", "write", "mixed"};
  return names[static_cast<u32>(pattern)];
}

struct DiskRate {
  double bytes_per_second = 0;    // read and written together
  double cpu_seconds_per_gb = 0;  // user and system time of the process, per 1e9 bytes
};

struct DiskLoadOptions {
  Bytes block{mib};  // size of the pieces that the kernel gets
  u32 depth = 32;    // blocks in flight
  DiskBackend backend = DiskBackend::automatic;
  Bytes span{};  // use only the first part of the file; 0: all of it
};

// Requests are longer than blocks, as chunks are: the measurement includes cutting them.
class DiskLoad {
 public:
  static Result<std::unique_ptr<DiskLoad>> create(SwapFile&, const DiskLoadOptions&);

  // Blocks for about `seconds`. Wraps around at the end of the file.
  Result<DiskRate> run(DiskPattern, double seconds);
  // Writes the whole file once, so that reads come from the medium.
  Result<void> fill();
  // As fill(), in steps of about `seconds`: each call continues where the previous call ended.
  // RETURNS: the bytes written so far.
  // REQUIRES: called before run().
  Result<Bytes> fill_on(double seconds);
  std::string describe() const { return disk_->describe(); }

 private:
  DiskLoad() = default;
  void completed(const DiskCompletion&);
  void submit_next(u64 buffer);  // REQUIRES: mutex_ held
  DiskOp next_op(u64 buffer) const;
  Result<u64> drive(DiskPattern, double seconds, u64 bytes_max);

  std::unique_ptr<Arena> arena_;
  u64 request_bytes_ = 0, buffers_ = 0, file_bytes_ = 0, filled_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable idle_;
  DiskPattern pattern_{};
  std::array<u64, 2> at_{};  // by DiskOp: start of the next request
  u64 in_flight_ = 0, bytes_ = 0, bytes_max_ = 0;
  bool stopping_ = false;
  Error error_;
  std::unique_ptr<Disk> disk_;  // last: its thread uses all members above
};

}  // namespace tidepool
