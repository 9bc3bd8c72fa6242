#include "io/disk_error.h"

#include <fmt/format.h>

namespace tidepool {

Error disk_error(const std::string& path, DiskOp op, u64 offset, u64 bytes, int error_number) {
  return {ErrorKind::io, with_advice(fmt::format("cannot {} {} bytes at offset {} of {}: {}",
                                                 op == DiskOp::read ? "read" : "write", bytes, offset, path,
                                                 errno_text(error_number)),
                                     error_number, FileUse::swap)};
}

Error disk_end_of_file(const std::string& path, u64 offset, u64 bytes) {
  return {ErrorKind::io,
          fmt::format("cannot read {} bytes at offset {} of {}: the file ends there. Something "
                      "truncated it while the job ran; resume from the last checkpoint.",
                      bytes, offset, path)};
}

Error not_a_swap_file(const std::string& path, const std::string& irregular) {
  return {ErrorKind::io, fmt::format("the swap file {} is {}, not a regular file: move it away, or choose "
                                     "another memory.swap_dir",
                                     path, irregular)};
}

Error file_error(const std::string& what, const std::string& path, int error_number, FileUse use) {
  return {ErrorKind::io,
          with_advice(fmt::format("{} {}: {}", what, path, errno_text(error_number)), error_number, use)};
}

}  // namespace tidepool
