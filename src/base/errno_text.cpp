#include "base/errno_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace tidepool {

std::string errno_text(int error_number) {
  const char* name = strerrorname_np(error_number);
  const char* text = strerrordesc_np(error_number);
  return fmt::format("{} ({})", text != nullptr ? text : "unknown error", name != nullptr ? name : "?");
}

namespace {

std::string space_advice(FileUse use) {
  switch (use) {
    case FileUse::swap:
      return "Free space there, or point memory.swap_dir at a larger disk.";
    case FileUse::run:
      return "Free space there, lower output.save_total_limit, or point output.dir at a larger disk.";
    case FileUse::cache:
      return "Free space there, or point data.cache at a larger disk.";
    case FileUse::page:
      return "Free space there, or name a file on a larger disk with --html FILE.";
    case FileUse::other:
      break;
  }
  return "Free space there, or write to a larger disk.";
}

// Advice for the swap file only: it is written with O_DIRECT. Other files are written as any program writes.
std::string swap_advice(int error_number) {
  switch (error_number) {
    case EINVAL:
      return "The file system does not take aligned O_DIRECT transfers: use another disk.";
    case ENOMEM:
    case EBUSY:
      return "The kernel has no memory for disk requests: free some, lower memory.queue_depth, or set "
             "memory.io=threads, then resume.";
    default:
      return "";
  }
}

}  // namespace

std::string errno_advice(int error_number, FileUse use) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return space_advice(use);
    case EIO:
    case EREMOTEIO:
    case ETIMEDOUT:
    case ENODATA:
      return fmt::format(
          "The device failed: look at `dmesg` and `smartctl -a`, or use another disk, then {}.",
          use == FileUse::swap || use == FileUse::run ? "resume" : "try again");
    case EFBIG:
      return "The file is larger than this process may write: raise the limit with `ulimit -f unlimited`, "
             "or, if the file system sets the limit, use another file system.";
    case EROFS:
    case EACCES:
    case EPERM:
      return use == FileUse::page ? "Name a file in another directory with --html FILE."
                                  : "Make the directory writable for this user, or choose another one.";
    case ENOENT:
      return "Create the directory above it first, or choose another one.";
    case EMFILE:
    case ENFILE:
      return "Raise the limit with `ulimit -n`.";
    case ENODEV:
    case ENXIO:
    case ESHUTDOWN:
      return "The device is gone: was it unplugged or unmounted?";
    default:
      return use == FileUse::swap ? swap_advice(error_number) : "";
  }
}

std::string with_advice(std::string message, int error_number, FileUse use) {
  std::string advice = errno_advice(error_number, use);
  return advice.empty() ? message : message + ". " + advice;
}

}  // namespace tidepool
