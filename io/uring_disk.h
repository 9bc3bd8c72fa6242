// UringDisk does the I/O with io_uring. This header includes no liburing header.
#pragma once

#include "io/disk.h"

namespace tidepool {

// Errors: say why the kernel refuses io_uring and what would allow it.
Result<std::unique_ptr<Disk>> create_uring_disk(SwapFile&, const DiskOptions&, DiskSink);

}  // namespace tidepool
