// The disk on io_uring. No liburing header in here.
#pragma once

#include "io/disk.h"

namespace tidepool {

// An error says why the kernel refuses io_uring and what would allow it.
Result<std::unique_ptr<Disk>> create_uring_disk(SwapFile&, const DiskOptions&, DiskSink);

}  // namespace tidepool
