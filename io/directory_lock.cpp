#include "io/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "base/open_file.h"
#include "base/types.h"
#include "io/disk_error.h"

namespace tidepool {
namespace {

constexpr std::size_t holder_bytes_max = 256;
constexpr u32 lock_tries_max = 16;  // another job may remove the file between our open and our lock

std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

// Parses "pid 123\nboot 6f...\n". Reads the opened file, not the file that has the name by now.
LastHolder read_holder(int fd) {
  std::string text(holder_bytes_max, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(pread(fd, text.data(), text.size(), 0), 0)));
  std::istringstream in(text);
  LastHolder holder;
  std::string word, boot;
  while (in >> word) {
    if (word == "pid")
      in >> holder.pid;
    else if (word == "boot")
      in >> boot;
  }
  holder.this_boot = boot == boot_id();
  return holder;
}

// RETURNS: true if the name still refers to the file that was opened.
bool still_named(int fd, const std::string& path) {
  struct stat opened {
  }, named{};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino;
}

}  // namespace

Result<DirectoryLock> DirectoryLock::take(const Options& options) {
  const std::string path = options.dir + "/" + options.file;
  for (u32 i = 0; i < lock_tries_max; ++i) {
    const NoSuddenEnd hold;
    // A link in someone else's run directory would have its target truncated now and removed at the end.
    RegularFile file = open_to_write(path, O_RDWR | O_CREAT);
    if (!file.irregular.empty())
      return Error{ErrorKind::io, fmt::format("cannot lock the {}: {} is {}; remove it, or {}", options.what,
                                              path, file.irregular, options.remedy)};
    if (!file)
      return file_error(fmt::format("cannot lock the {}: cannot open", options.what), path, file.error_number,
                        FileUse::other);
    const int fd = file.fd.get();
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const LastHolder holder = read_holder(fd);
      if (error != EWOULDBLOCK) return file_error("cannot lock", path, error, FileUse::other);
      return Error{ErrorKind::io,
                   fmt::format("the {} {} is in use by the job with pid {}: wait for it, stop it, or {}",
                               options.what, options.dir, holder.pid, options.remedy)};
    }
    DirectoryLock lock;
    lock.fd_ = file.fd.release();
    if (!still_named(fd, path))
      continue;  // the owner removed the file meanwhile: our lock is on a deleted file
    lock.path_ = path;
    lock.leftover_ = RemovedAtSuddenEnd(path, Leftover::file);
    lock.last_ = read_holder(fd);
    TRY(lock.write_holder());
    return lock;
  }
  return Error{ErrorKind::io, fmt::format("cannot lock {}: jobs keep replacing it", path)};
}

std::optional<long> lock_holder(const std::string& dir, const std::string& file) {
  const std::string path = dir + "/" + file;
  const RegularFile lock = open_own_to_read(path);
  if (!lock) return std::nullopt;
  std::optional<long> holder;
  // The end of `lock` also releases the lock if this call takes it.
  if (flock(lock.fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    holder = read_holder(lock.fd.get()).pid;
  return holder;
}

Result<void> DirectoryLock::write_holder() {
  const std::string text = fmt::format("pid {}\nboot {}\n", getpid(), boot_id());
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return file_error("cannot write", path_, errno, FileUse::other);
  return {};
}

DirectoryLock::DirectoryLock(DirectoryLock&& o) noexcept
    : fd_(std::exchange(o.fd_, -1)),
      path_(std::exchange(o.path_, {})),
      last_(o.last_),
      leftover_(std::move(o.leftover_)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& o) noexcept {
  std::swap(fd_, o.fd_);
  std::swap(path_, o.path_);
  std::swap(last_, o.last_);
  std::swap(leftover_, o.leftover_);
  return *this;
}

void DirectoryLock::release() {
  if (fd_ < 0) return;
  {
    const NoSuddenEnd hold;
    // Removed before the lock is released: afterwards the file may belong to another job. The file also
    // belongs to another job if the directory was renamed and a new directory has its place, which
    // still_named() detects.
    if (!path_.empty() && still_named(fd_, path_)) unlink(path_.c_str());
    leftover_ = {};
  }
  close(std::exchange(fd_, -1));
}

}  // namespace tidepool
