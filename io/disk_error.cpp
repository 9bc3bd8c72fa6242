#include "io/disk_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace tidepool {

std::string errno_text(int error_number) {
  const char* name = strerrorname_np(error_number);
  const char* text = strerrordesc_np(error_number);
  return fmt::format("{} ({})", text != nullptr ? text : "unknown error", name != nullptr ? name : "?");
}

std::string errno_advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "Free space there, or point memory.swap_dir (output.dir) at a larger disk.";
    case EIO:
    case EREMOTEIO:
    case ETIMEDOUT:
    case ENODATA:
      return "The device failed: look at `dmesg` and `smartctl -a`, or use another disk, then resume.";
    case EFBIG:
      return "The file size limit is too low: raise it with `ulimit -f unlimited`.";
    case EROFS:
    case EACCES:
    case EPERM:
      return "Make the directory writable for this user, or choose another one.";
    case ENOENT:
      return "Create the directory above it first, or choose another one.";
    case EMFILE:
    case ENFILE:
      return "Too many open files: raise the limit with `ulimit -n`.";
    case EINVAL:
      return "The file system does not take aligned O_DIRECT transfers: use another disk.";
    case ENOMEM:
    case EBUSY:
      return "The kernel has no memory for disk requests: free some, lower memory.queue_depth, or set "
             "memory.io=threads, then resume.";
    case ENODEV:
    case ENXIO:
    case ESHUTDOWN:
      return "The device is gone: was it unplugged or unmounted?";
    default:
      return "";
  }
}

namespace {
std::string with_advice(std::string message, int error_number) {
  std::string advice = errno_advice(error_number);
  return advice.empty() ? message : message + ". " + advice;
}
}  // namespace

Error disk_error(const std::string& path, DiskOp op, u64 offset, u64 bytes, int error_number) {
  return {ErrorKind::io, with_advice(fmt::format("cannot {} {} bytes at offset {} of {}: {}",
                                                 op == DiskOp::read ? "read" : "write", bytes, offset, path,
                                                 errno_text(error_number)),
                                     error_number)};
}

Error disk_end_of_file(const std::string& path, u64 offset, u64 bytes) {
  return {ErrorKind::io,
          fmt::format("cannot read {} bytes at offset {} of {}: the file ends there. Something "
                      "truncated it while the job ran; resume from the last checkpoint.",
                      bytes, offset, path)};
}

Error file_error(const std::string& what, const std::string& path, int error_number) {
  return {ErrorKind::io,
          with_advice(fmt::format("{} {}: {}", what, path, errno_text(error_number)), error_number)};
}

}  // namespace tidepool
