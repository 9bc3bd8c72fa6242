#include "base/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <filesystem>

namespace tidepool {
namespace {

constexpr auto pipe_file_system = 0x50495045;  // PIPEFS_MAGIC of statfs(2): pipes without a name

enum class AtLink : u8 { follow, refuse };

std::string_view kind_of_mode(mode_t mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

std::string link_text(const std::string& path) {
  std::error_code unused;
  return fmt::format("a link to {}", std::filesystem::read_symlink(path, unused).string());
}

// Kind of what `path` names; empty: a regular file, nothing, or what open() will report.
std::string irregular_at(const std::string& path, AtLink at_link) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return "";
  if (!S_ISLNK(info.st_mode)) return std::string(kind_of_mode(info.st_mode));
  if (at_link == AtLink::refuse) return link_text(path);
  if (::stat(path.c_str(), &info) == 0) return std::string(kind_of_mode(info.st_mode));
  if (errno == ENOENT || errno == ENOTDIR) return "a link that leads nowhere";
  return errno == ELOOP ? "a link that leads back to itself" : "";
}

RegularFile open_regular(const std::string& path, int flags, mode_t mode, AtLink at_link) {
  RegularFile out;
  // Looked at before it is opened, because opening a device may have an effect, and a socket cannot be
  // opened.
  out.irregular = irregular_at(path, at_link);
  if (!out.irregular.empty()) return out;
  // O_NONBLOCK, and a second look: the name may have become that of a pipe meanwhile.
  flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (at_link == AtLink::refuse ? O_NOFOLLOW : 0);
  Fd fd(::open(path.c_str(), flags, mode));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    out.error_number = errno;
    return out;
  }
  out.irregular = kind_of_mode(info.st_mode);
  if (!out.irregular.empty()) return out;
  // io_uring would answer EAGAIN instead of waiting for the disk.
  const int now = ::fcntl(fd.get(), F_GETFL);
  if (now < 0 || ::fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) != 0) {
    out.error_number = errno;
    return out;
  }
  out.fd = std::move(fd);
  return out;
}

}  // namespace

std::string RegularFile::reason() const {
  return irregular.empty() ? errno_text(error_number) : "is " + irregular;
}

RegularFile open_to_read(const std::string& path, int flags) {
  return open_regular(path, O_RDONLY | flags, 0, AtLink::follow);
}

RegularFile open_own_to_read(const std::string& path, int flags) {
  return open_regular(path, O_RDONLY | flags, 0, AtLink::refuse);
}

RegularFile open_to_write(const std::string& path, int flags, mode_t mode) {
  return open_regular(path, (flags & O_ACCMODE) == O_RDWR ? flags : flags | O_WRONLY, mode, AtLink::refuse);
}

Fd open_passed_pipe(const std::string& path) {
  struct statfs where {};
  if (::statfs(path.c_str(), &where) != 0 || where.f_type != pipe_file_system) return Fd();
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

std::string irregular_file(const std::string& path) { return irregular_at(path, AtLink::refuse); }

Error cannot_write(const char* operation, const std::string& path, const RegularFile& file, FileUse use) {
  if (!file.irregular.empty())
    return {ErrorKind::io, fmt::format("cannot write {}: it is {}; move it away, or name another file", path,
                                       file.irregular)};
  return {ErrorKind::io,
          with_advice(fmt::format("cannot {} {}: {}", operation, path, errno_text(file.error_number)),
                      file.error_number, use)};
}

}  // namespace tidepool
