// Disk errors as people read them.
#pragma once

#include <string>

#include "base/errno_text.h"
#include "io/disk.h"

namespace tidepool {

// "cannot write 1048576 bytes at offset 4096 of /x/tidepool.swap: No space left on device (ENOSPC). <what to
// do>"
Error disk_error(const std::string& path, DiskOp, u64 offset, u64 bytes, int error_number);

// The file ended before the bytes asked for.
Error disk_end_of_file(const std::string& path, u64 offset, u64 bytes);

// "/x/y: Permission denied (EACCES)" with advice; for opening, locking and removing.
Error file_error(const std::string& what, const std::string& path, int error_number, FileUse = FileUse::swap);

}  // namespace tidepool
