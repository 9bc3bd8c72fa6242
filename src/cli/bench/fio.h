// Runs fio on a file of ours, to compare it with Tidepool.
#pragma once

#include <string>

#include "probe/disk_load.h"

namespace tidepool {

bool fio_installed();

// Runs fio sequentially for `seconds` on an existing file, with its io_uring engine, direct=1 and huge pages,
// like ours. `scratch`: path of a file to which fio may write its output.
Result<DiskRate> run_fio(const SwapFile&, DiskPattern, const DiskLoadOptions&, double seconds,
                         const std::string& scratch);

}  // namespace tidepool
