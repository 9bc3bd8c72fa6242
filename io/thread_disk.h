// ThreadDisk is the fallback where io_uring is not permitted (many containers): pread and pwrite on a few
// threads.
#pragma once

#include "io/disk.h"

namespace tidepool {

// More threads than this cost more in switches than their depth gains on one SSD.
inline constexpr u32 disk_threads_max = 8;

// `why` is the reason why io_uring is not used, or empty; describe() includes it.
Result<std::unique_ptr<Disk>> create_thread_disk(SwapFile&, const DiskOptions&, DiskSink,
                                                 const std::string& why);

}  // namespace tidepool
