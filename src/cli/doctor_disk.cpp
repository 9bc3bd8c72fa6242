// Examines io_uring and the directory of the swap file for the doctor.
#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/open_file.h"
#include "cli/doctor.h"
#include "io/file_system.h"
#include "io/memory_limits.h"
#include "io/swap_file.h"

namespace tidepool {

namespace {

namespace fs = std::filesystem;

Finding uring() {
  const std::string what = "io_uring";
  io_uring ring{};
  const int refused = -io_uring_queue_init(8, &ring, 0);
  if (refused == 0) {
    io_uring_queue_exit(&ring);
    return {.what = what, .found = "permitted"};
  }
  int disabled = 0;
  std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
  const char* fix = disabled != 0 ? "sudo sysctl kernel.io_uring_disabled=0"
                    : refused == ENOSYS
                        ? "use kernel 5.10 or later"
                        : "in a container, permit it in the seccomp profile (docker run --security-opt "
                          "seccomp=unconfined)";
  return {Health::warn, what,
          fmt::format("refused ({}): a thread pool drives the disk, which takes more CPU time",
                      std::strerror(refused)),
          fix};
}

enum class Direct : u8 { yes, no, not_writable };

// Tries O_DIRECT: creates, opens and removes a temporary file.
Direct try_direct(const fs::path& dir) {
  std::string name = (dir / "tidepool-doctor-XXXXXX").string();
  const int made = ::mkstemp(name.data());
  if (made < 0) return Direct::not_writable;
  ::close(made);
  const bool direct{open_to_write(name, O_RDWR | O_DIRECT)};
  ::unlink(name.c_str());
  return direct ? Direct::yes : Direct::no;
}

bool is_rotational(const fs::path& dir) {
  struct stat status {};
  if (::stat(dir.c_str(), &status) != 0) return false;
  const std::string device = fmt::format("/sys/dev/block/{}:{}", major(status.st_dev), minor(status.st_dev));
  for (const char* queue : {"/queue/rotational", "/../queue/rotational"}) {  // a disk, or a partition of one
    int rotational = 0;
    if (std::ifstream(device + queue) >> rotational) return rotational == 1;
  }
  return false;
}

Finding swap_place(const std::string& swap_dir, const FileSystem& at) {
  const std::string what = "swap directory";
  std::error_code unused;
  const bool exists = fs::exists(swap_dir, unused);
  const std::string found =
      fmt::format("{}{} on {}", exists ? "" : swap_dir + " does not exist yet; looked at ", at.dir, at.name);
  if (at.in_memory) {
    return {Health::fail, what, found + ", a file system in memory",
            "set memory.swap_dir (here: --dir) to a directory on an SSD", ErrorKind::io};
  }
  switch (try_direct(at.dir)) {
    case Direct::not_writable:
      return {Health::fail, what, found + fmt::format(", not writable: {}", std::strerror(errno)),
              "set memory.swap_dir (here: --dir) to a directory you may write to", ErrorKind::io};
    case Direct::no:
      return {Health::warn, what, found + ", without O_DIRECT: the page cache takes memory and time",
              "choose a directory on ext4 or xfs"};
    case Direct::yes:
      break;
  }
  // Not a warning, because virtual disks on flash often claim to spin.
  const char* spins =
      is_rotational(at.dir)
          ? "; the kernel reports a spinning disk: measure its speed with `tidepool bench disk`"
          : "";
  return {.what = what, .found = found + ", O_DIRECT works" + spins};
}

Finding swap_room(Bytes free, Bytes needed) {
  std::string found = fmt::format("{} free", format_bytes(free));
  if (needed.value != 0) found += fmt::format(", this run takes {}", format_bytes(needed));
  if (free < needed) {
    return {Health::fail, "swap space", found,
            "free some space, or set memory.swap_dir to a directory on a larger disk", ErrorKind::io};
  }
  if (free < Bytes{gib})
    return {Health::warn, "swap space", found, "free some space, or choose another directory"};
  return {.what = "swap space", .found = found};
}

}  // namespace

std::vector<Finding> examine_disk(const std::string& swap_dir, const Wanted& wanted) {
  std::vector<Finding> out = {uring()};
  if (!wanted.swaps) {
    out.push_back({.what = "swap directory", .found = "not needed: this run does not swap"});
    return out;
  }
  const Result<FileSystem> at = look_at_file_system(swap_dir);
  if (!at) {
    out.push_back({Health::fail, "swap directory", at.error().message, "set memory.swap_dir (here: --dir)",
                   ErrorKind::io});
    return out;
  }
  out.push_back(swap_place(swap_dir, *at));
  const Result<Bytes> space = swap_space(swap_dir);  // includes the space of an existing swap file
  out.push_back(swap_room(space ? *space : at->free, wanted.disk));
  return out;
}

}  // namespace tidepool
