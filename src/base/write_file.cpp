#include "base/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "base/open_file.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view temporary_mark = ".tmp-";  // followed by the writer's pid
constexpr mode_t permissions_mask = 07777;

Error errno_error(const char* operation, const std::string& path, FileUse use) {
  const int number = errno;
  return {ErrorKind::io,
          with_advice(fmt::format("cannot {} {}: {}", operation, path, errno_text(number)), number, use)};
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Sets errno on failure.
bool write_all(const Fd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool is_alive(long pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH; }

// Removes temporary files of killed writers.
void clear_litter(const fs::path& path) {
  const std::string prefix = path.filename().string() + std::string(temporary_mark);
  std::error_code unused;
  for (fs::directory_iterator at(directory_of(path), unused), end; !unused && at != end;
       at.increment(unused)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    long pid = 0;
    const char* const name_end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + prefix.size(), name_end, pid);
    if (error != std::errc() || stop != name_end || pid <= 0 || is_alive(pid)) continue;
    ::unlink(at->path().c_str());
  }
}

RegularFile open_new(const std::string& path) {
  RegularFile file = open_to_write(path, O_CREAT | O_EXCL);
  if (file.error_number != EEXIST || ::unlink(path.c_str()) != 0) return file;
  return open_to_write(path, O_CREAT | O_EXCL);  // left by a dead process that had our pid
}

}  // namespace

Result<void> check_can_be_file(const std::string& path) {
  RegularFile there;
  there.irregular = irregular_file(path);
  if (there.irregular.empty()) return {};
  return cannot_write("write", path, there, FileUse::other);
}

FileReplacement::FileReplacement(std::string path, FileUse use)
    : path_(std::move(path)),
      temporary_(fmt::format("{}{}{}", path_, temporary_mark, ::getpid())),
      use_(use) {}

Result<FileReplacement> FileReplacement::begin(const std::string& path, FileUse use) {
  TRY(check_can_be_file(path));
  clear_litter(path);
  FileReplacement out(path, use);
  RegularFile file = open_new(out.temporary_);
  if (!file) {
    const std::string name = file.irregular.empty() ? path : std::exchange(out.temporary_, {});
    out.temporary_.clear();
    return cannot_write("create", name, file, use);
  }
  out.fd_ = std::move(file.fd);
  struct stat old {};
  if (::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode))
    (void)::fchmod(out.fd_.get(), old.st_mode & permissions_mask);
  return out;
}

Error FileReplacement::error(const char* operation) const { return errno_error(operation, path_, use_); }

Result<void> FileReplacement::append(std::string_view text) {
  if (!write_all(fd_, text)) return error("write");
  return {};
}

Result<void> FileReplacement::commit() {
  if (::fsync(fd_.get()) != 0) return error("fsync");
  if (fd_.close() != 0) return error("close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return error("replace");
  temporary_.clear();
  return sync_directory(directory_of(path_).string(), use_);
}

void FileReplacement::drop() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> replace_file(const std::string& path, std::string_view text, FileUse use) {
  TRY_ASSIGN(FileReplacement file, FileReplacement::begin(path, use));
  TRY(file.append(text));
  return file.commit();
}

Result<void> sync_directory(const std::string& path, FileUse use) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("open directory", path, use);
  if (::fsync(fd.get()) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) return {};
  return errno_error("fsync directory", path, use);
}

Result<void> make_directories(const std::string& path, FileUse use) {
  fs::path dir = path;
  if (!dir.has_filename()) dir = dir.parent_path();  // the path ended in a slash
  std::error_code unused;
  if (dir.empty() || fs::is_directory(dir, unused)) return {};
  const std::string above = directory_of(dir).string();
  if (above != dir) TRY(make_directories(above, use));
  if (const int failed = ::mkdir(dir.c_str(), 0777) == 0 ? 0 : errno; failed != 0) {
    const bool made_meanwhile = failed == EEXIST && fs::is_directory(dir, unused);
    errno = failed;
    if (!made_meanwhile) return errno_error("make directory", dir.string(), use);
  }
  return sync_directory(above, use);
}

Result<AppendLog> AppendLog::open(const std::string& path, FileUse use) {
  RegularFile file = open_to_write(path, O_CREAT | O_APPEND);
  if (!file) return cannot_write("open", path, file, use);
  struct stat now {};
  if (::fstat(file.fd.get(), &now) != 0) return errno_error("open", path, use);
  return AppendLog(path, use, std::move(file.fd), static_cast<u64>(now.st_size));
}

Result<void> AppendLog::cut_torn_record() {
  if (!torn_) return {};
  if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) return errno_error("truncate", path_, use_);
  torn_ = false;
  return {};
}

Result<void> AppendLog::append(std::string_view record) {
  TRY(cut_torn_record());
  if (!write_all(fd_, record)) {
    const Error error = errno_error("write", path_, use_);
    torn_ = true;
    (void)cut_torn_record();
    return error;
  }
  end_ += record.size();
  return {};
}

Result<void> AppendLog::sync() {
  if (::fdatasync(fd_.get()) != 0) return errno_error("fsync", path_, use_);
  return {};
}

}  // namespace tidepool
