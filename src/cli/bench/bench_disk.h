// `tidepool bench disk`: what the disk gives through Tidepool, next to what fio gets from it.
#pragma once

#include <string>

#include "base/result.h"
#include "io/disk.h"

namespace tidepool {

struct BenchDiskOptions {
  bool json = false;
  std::string dir = ".";  // on the disk to measure; a directory made in it is removed at the end
  Bytes size{4 * gib};    // of the file
  Bytes block{1 * mib};   // given to the kernel at a time
  u32 depth = 32;         // blocks in flight
  double seconds = 2;     // per measurement
  u32 repetitions = 5;    // medians of this many interleaved runs
  DiskBackend backend = DiskBackend::automatic;
};

// Sequential read, sequential write, and both at once. Where fio is installed it runs in between (its
// io_uring engine, O_DIRECT) on the same file with the same block, depth and page size of buffers.
Result<void> bench_disk(const BenchDiskOptions&);

}  // namespace tidepool
