// Benchmarks a disk: its rates through Tidepool, next to its rates through fio. `tidepool bench disk`.
#pragma once

#include <string>

#include "base/result.h"
#include "io/disk.h"

namespace tidepool {

struct BenchDiskOptions {
  bool json = false;
  std::string dir = ".";  // on the disk to measure; a directory is made in it and removed at the end
  Bytes size{4 * gib};    // of the file
  Bytes block{1 * mib};   // bytes per request to the kernel
  u32 depth = 32;         // blocks in flight
  double seconds = 2;     // per measurement
  u32 repetitions = 5;    // medians of this many interleaved runs
  DiskBackend backend = DiskBackend::automatic;
};

// Measures sequential read, sequential write, and both at once. If fio is installed, its runs alternate with
// ours, with its io_uring engine and O_DIRECT, on the same file with the same block, depth and page size of
// buffers.
Result<void> bench_disk(const BenchDiskOptions&);

}  // namespace tidepool
