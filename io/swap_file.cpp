// SwapFile checks the directory, its file system and its free space before it makes the file.
#include "io/swap_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/errno_text.h"
#include "base/open_file.h"
#include "io/disk_error.h"
#include "io/file_system.h"
#include "io/memory_limits.h"
#include "io/state_journal.h"

namespace tidepool {
namespace {

constexpr u64 zero_block_bytes = 4 * mib;  // unit of writing zeros where fallocate is missing

Result<bool> make_directory(const std::string& dir) {
  if (mkdir(dir.c_str(), 0777) == 0) return true;
  if (errno != EEXIST) return file_error("cannot make the swap directory", dir, errno);
  struct stat info {};
  if (stat(dir.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return false;
  return Error{ErrorKind::io, fmt::format("the swap directory {} is not a directory: choose another "
                                          "memory.swap_dir",
                                          dir)};
}

// RETURNS: bytes that the file occupies on its disk; 0 if there is no such file.
Bytes taken(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? Bytes{static_cast<u64>(info.st_blocks) * 512} : Bytes{};
}

Result<void> refuse_memory_file_system(const std::string& dir) {
  TRY_ASSIGN(const FileSystem at, look_at_file_system(dir));
  if (!at.in_memory) return {};
  return Error{ErrorKind::io, fmt::format("the swap directory {} is on {}, which is memory, not a disk: set "
                                          "memory.swap_dir to a directory on an SSD",
                                          dir, at.name)};
}

Result<void> check_file_size_limit(const std::string& dir, Bytes needed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= needed.value) {
    return {};
  }
  return Error{ErrorKind::io,
               fmt::format("the file size limit {} is below the {} that swapping to {} takes: raise "
                           "it with `ulimit -f unlimited`",
                           format_bytes({limit.rlim_cur}), format_bytes(needed), dir)};
}

Error no_space(const std::string& dir, Bytes needed, int error_number) {
  struct statvfs info {};
  Bytes free{};
  if (statvfs(dir.c_str(), &info) == 0) free = {u64{info.f_bavail} * info.f_frsize};
  return {ErrorKind::io,
          fmt::format("the swap directory {} needs {} but has {} free: {}. Free space there, set "
                      "memory.swap_dir to a larger disk, or raise memory.host so that less is swapped.",
                      dir, format_bytes(needed), format_bytes(free), errno_text(error_number))};
}

std::string litter_note(const std::string& dir, Bytes bytes, const LastHolder& of) {
  return fmt::format("cleared {} that a dead job (pid {}{}) left in {}", format_bytes(bytes), of.pid,
                     of.this_boot ? "" : ", before the last boot", dir);
}

// RETURNS: why the file must not be removed: it holds a state that a job can resume from, or one that is
// damaged, or it cannot be read. Nullopt: it may be removed.
std::optional<Error> holds_state(const std::string& path) {
  const Result<std::optional<FoundState>> found = read_state_file(path);
  if (!found) return found.error();
  if (!*found || (*found)->commit.sequence == 0) return std::nullopt;
  return Error{ErrorKind::usage,
               fmt::format("{} holds the state of a run that ended without finishing, committed after "
                           "step {}: resume with --resume auto in the output.dir of that run, choose another "
                           "memory.swap_dir, or move the file away",
                           path, (*found)->commit.step)};
}

// A job may have trained on and ended between the time when `found` was read and the lock.
Result<void> check_is_unchanged(const FoundState& found) {
  TRY_ASSIGN(const std::optional<FoundState> now, read_state_file(found.path));
  if (now && now->commit.sequence == found.commit.sequence && now->head.description == found.head.description)
    return {};
  return Error{
      ErrorKind::usage,
      fmt::format("{} held the state of step {} when this process began, and another process has changed "
                  "it since. Nothing was changed here: give the command again",
                  found.path, found.commit.step)};
}

// Removes the file of a job that was killed as it copied a state.
Result<void> remove_copy(const std::string& dir) {
  const std::string path = dir + "/" + swap_file_of_copy;
  if (const std::string irregular = irregular_file(path); !irregular.empty())
    return not_a_swap_file(path, irregular);
  unlink(path.c_str());
  return {};
}

// Asks Btrfs to write in place: copy-on-write would move every chunk on every write, and Btrfs's checksums
// forbid O_DIRECT in place. A refusal is ignored.
void ask_for_in_place_writes(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0 || info.f_type != BTRFS_SUPER_MAGIC) return;
  int flags = 0;
  if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
    flags |= FS_NOCOW_FL;
    (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
  }
}

}  // namespace

Result<Bytes> swap_space(const std::string& dir) {
  TRY_ASSIGN(const FileSystem at, look_at_file_system(dir));
  return at.free + taken(dir + "/" + swap_file_name);
}

std::string clear_swap_litter(const SwapFileOptions& options) {
  const std::string path = options.dir + "/" + swap_file_name, job = options.dir + "/" + swap_job_name;
  const bool there = access(path.c_str(), F_OK) == 0;
  if (!there && access(job.c_str(), F_OK) != 0) {
    if (options.own_dir) rmdir(options.dir.c_str());  // of a job that was killed as it cleaned up
    return "";
  }
  Result<DirectoryLock> lock =
      DirectoryLock::take({.dir = options.dir, .file = swap_job_name, .what = "swap directory"});
  if (!lock || holds_state(path)) return "";
  const std::string note = litter_note(options.dir, taken(path), lock->last_holder());
  (void)remove_copy(options.dir);
  const bool gone = !there || unlink(path.c_str()) == 0;
  lock->release();
  if (options.own_dir) rmdir(options.dir.c_str());
  return there && gone ? note : "";
}

Result<std::unique_ptr<SwapFile>> SwapFile::create(const SwapFileOptions& options) {
  CHECK(options.bytes.value > 0 && options.bytes.value % frame_alignment == 0, options.bytes.value);
  std::unique_ptr<SwapFile> file(new SwapFile);
  file->dir_ = options.dir;
  file->path_ = options.dir + "/" + options.file;
  file->bytes_ = options.bytes;
  {
    const NoSuddenEnd hold;
    if (options.makes_parent) TRY(file->make_parent());
    TRY_ASSIGN(const bool made, make_directory(options.dir));
    file->made_dir_ = made || options.own_dir;
    if (file->made_dir_) file->dir_leftover_ = RemovedAtSuddenEnd(options.dir, Leftover::directory);
    if (!file->made_parent_.empty())  // after the directory in it
      file->parent_leftover_ = RemovedAtSuddenEnd(file->made_parent_, Leftover::directory);
  }
  TRY(refuse_memory_file_system(options.dir));
  TRY(check_file_size_limit(options.dir, options.bytes));
  TRY(file->lock_directory());
  if (options.found != nullptr) TRY(check_is_unchanged(*options.found));
  TRY(file->clear_way(options.committed));
  TRY(file->open_file());
  TRY(file->take_space());
  TRY(file->sync_names());
  return file;
}

void SwapFile::keep(bool keep) {
  keep_ = keep;
  leftover_ = keep ? RemovedAtSuddenEnd() : RemovedAtSuddenEnd(path_, Leftover::file);
}

// Makes the names of files in the directory durable, and its own name.
Result<void> SwapFile::sync_names() const {
  for (const std::string& name :
       {dir_, std::string(std::filesystem::path(dir_ + "/..").lexically_normal())}) {
    const Fd dir(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (dir && ::fsync(dir.get()) != 0 && errno != EINVAL) return file_error("cannot flush", name, errno);
  }
  return {};
}

Result<void> SwapFile::rename_to(const std::string& name) {
  const std::string path = dir_ + "/" + name;
  if (::rename(path_.c_str(), path.c_str()) != 0) return file_error("cannot rename to", path, errno);
  path_ = path;
  keep(keep_);
  return sync_names();
}

SwapFile::~SwapFile() {
  if (fd_ >= 0) {
    close(fd_);
    if (!keep_) unlink(path_.c_str());
  }
  lock_.release();
  if (made_dir_) rmdir(dir_.c_str());  // fails, as intended, if the directory holds other files
  if (!made_parent_.empty()) rmdir(made_parent_.c_str());
}

Result<void> SwapFile::make_parent() {
  const std::string parent = std::filesystem::path(dir_).parent_path();
  TRY_ASSIGN(const bool made, make_directory(parent));
  if (made) made_parent_ = parent;
  return {};
}

Result<void> SwapFile::lock_directory() {
  TRY_ASSIGN(lock_, DirectoryLock::take({.dir = dir_,
                                         .file = swap_job_name,
                                         .what = "swap directory",
                                         .remedy = "choose another memory.swap_dir"}));
  return {};
}

Result<void> SwapFile::clear_way(SwapFileOptions::Found committed) {
  TRY(remove_copy(dir_));
  if (const std::string irregular = irregular_file(path_); !irregular.empty())
    return not_a_swap_file(path_, irregular);
  if (access(path_.c_str(), F_OK) != 0) return {};
  if (committed != SwapFileOptions::Found::discard)
    if (std::optional<Error> held = holds_state(path_)) {
      if (committed == SwapFileOptions::Found::refuse) return *std::move(held);
      takes_over_ = keep_ = true;
      return {};
    }
  notes_.push_back(litter_note(dir_, taken(path_), lock_.last_holder()));
  if (unlink(path_.c_str()) != 0) return file_error("cannot remove a dead job's file:", path_, errno);
  return {};
}

Result<void> SwapFile::open_file() {
  const NoSuddenEnd hold;
  const int flags = O_RDWR | (takes_over_ ? 0 : O_CREAT | O_EXCL);
  RegularFile file = open_to_write(path_, flags | O_DIRECT, 0600);
  if (file.error_number == EINVAL) {
    // Some file systems create the file before they refuse the flag.
    if (!takes_over_) unlink(path_.c_str());
    direct_ = false;
    notes_.push_back(
        fmt::format("WARNING: the file system of {} refuses O_DIRECT. Swapping goes through the page "
                    "cache: it takes memory beyond the budgets, and measured disk rates are not the "
                    "disk's. Set memory.swap_dir to a directory on ext4, xfs or btrfs on an SSD.",
                    dir_));
    file = open_to_write(path_, flags, 0600);
  }
  if (!file.irregular.empty()) return not_a_swap_file(path_, file.irregular);
  if (!file) return file_error("cannot make the swap file", path_, file.error_number);
  fd_ = file.fd.release();
  if (takes_over_) return {};
  leftover_ = RemovedAtSuddenEnd(path_, Leftover::file);
  ask_for_in_place_writes(fd_);
  return {};
}

Result<void> SwapFile::take_space() {
  struct stat there {};
  if (fstat(fd_, &there) != 0) return file_error("cannot look at", path_, errno);
  const u64 begin = static_cast<u64>(there.st_size);  // of a file that is taken over, else 0
  if (begin >= bytes_.value) return {};
  const Bytes more{bytes_.value - begin};
  struct statvfs info {};
  if (statvfs(dir_.c_str(), &info) == 0 && u64{info.f_bavail} * info.f_frsize < more.value) {
    return no_space(dir_, more, ENOSPC);  // fails early: filling the disk first would hurt its other users
  }
  int result;
  do {
    result = fallocate(fd_, 0, static_cast<off_t>(begin), static_cast<off_t>(more.value));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return {};
  if (errno == ENOSPC || errno == EDQUOT) return no_space(dir_, more, errno);
  if (errno != EOPNOTSUPP && errno != ENOSYS) return file_error("cannot reserve space in", path_, errno);
  notes_.push_back(fmt::format("the file system of {} cannot reserve space: wrote {} of zeros instead", dir_,
                               format_bytes(more)));
  return write_zeros(begin, more, "reserve space in");
}

Result<void> SwapFile::clear(u64 offset, Bytes bytes) {
  CHECK(offset + bytes.value <= bytes_.value, offset, bytes.value, bytes_.value);
  int result;
  do {
    result = fallocate(fd_, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(bytes.value));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return {};
  if (errno == EOPNOTSUPP || errno == ENOSYS) return write_zeros(offset, bytes, "clear a part of");
  return file_error("cannot clear a part of", path_, errno);
}

Result<void> SwapFile::write_zeros(u64 begin, Bytes bytes, std::string_view why) {
  std::unique_ptr<void, decltype(&std::free)> zeros(std::aligned_alloc(frame_alignment, zero_block_bytes),
                                                    std::free);
  CHECK(zeros != nullptr);
  std::fill_n(static_cast<char*>(zeros.get()), zero_block_bytes, 0);
  u64 done = 0;
  while (done < bytes.value) {
    u64 left = std::min(zero_block_bytes, bytes.value - done);
    ssize_t n = pwrite(fd_, zeros.get(), left, static_cast<off_t>(begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT)) return no_space(dir_, bytes_, errno);
    if (n <= 0) return file_error(fmt::format("cannot {}", why), path_, n < 0 ? errno : EIO);
    done += static_cast<u64>(n);
  }
  return {};
}

}  // namespace tidepool
