// Disk errors in words for people.
#pragma once

#include <string>

#include "base/errno_text.h"
#include "io/disk.h"

namespace tidepool {

// Makes messages like "cannot write 1048576 bytes at offset 4096 of /x/tidepool.swap: No space left on device
// (ENOSPC). <what to do>".
Error disk_error(const std::string& path, DiskOp, u64 offset, u64 bytes, int error_number);

// Error of a read that met the end of the file before its last byte.
Error disk_end_of_file(const std::string& path, u64 offset, u64 bytes);

// Error of a swap file that is a pipe, a link or anything else but a regular file.
Error not_a_swap_file(const std::string& path, const std::string& irregular);

// Error of opening, locking or removing a file: "/x/y: Permission denied (EACCES)" with advice.
Error file_error(const std::string& what, const std::string& path, int error_number, FileUse = FileUse::swap);

}  // namespace tidepool
