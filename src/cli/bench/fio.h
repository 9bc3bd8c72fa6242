// Runs fio on a file of ours, for comparison.
#pragma once

#include <string>

#include "probe/disk_load.h"

namespace tidepool {

bool fio_installed();

// fio with its io_uring engine, direct=1 and huge pages (as ours), sequential, for `seconds`, on an existing
// file. `scratch` is a file that it may write its answer to.
Result<DiskRate> run_fio(const SwapFile&, DiskPattern, const DiskLoadOptions&, double seconds,
                         const std::string& scratch);

}  // namespace tidepool
