// Read-back of a file that was just written, as the device has it.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/manifest.h"

namespace tidepool {

// Reads every listed file again, and compares it with the manifest: past the page cache where the file system
// lets us (O_DIRECT), else after asking the kernel to drop what it holds of it. ErrorKind::io names the file
// that came back otherwise than it was written. Takes 1 MiB.
Result<void> read_back(const std::string& directory, const Manifest&);

}  // namespace tidepool
