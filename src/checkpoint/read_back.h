// Reads files that were just written back from the device.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/manifest.h"

namespace tidepool {

// Reads every listed file and compares it with the manifest. Bypasses the page cache if the file system
// allows it (O_DIRECT), else asks the kernel to drop the cached pages first. Takes 1 MiB.
// Error: io, naming the file whose content differs.
Result<void> read_back(const std::string& directory, const Manifest&);

}  // namespace tidepool
