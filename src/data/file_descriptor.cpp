#include "data/file_descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tidepool {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FileDescriptor> FileDescriptor::open_to_read(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd_ >= 0) return file;
  const int fault = errno;
  const char* advice = fault == EMFILE ? "; join the data into fewer files, or raise `ulimit -n`" : "";
  return Error{ErrorKind::bad_input,
               fmt::format("{}: cannot open the data: {}{}", path, std::strerror(fault), advice)};
}

Result<Bytes> FileDescriptor::size(const std::string& path) const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    return Error{ErrorKind::io, fmt::format("{}: cannot tell its size: {}", path, std::strerror(errno))};
  }
  return Bytes{static_cast<u64>(status.st_size)};
}

Result<void> FileDescriptor::read(const std::string& path, u64 offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Error{ErrorKind::io, fmt::format("{}: cannot read {} bytes at offset {}: {}", path, out.size(),
                                              offset, std::strerror(errno))};
    }
    if (got == 0) {
      return Error{ErrorKind::io,
                   fmt::format("{}: ends at offset {}, where {} more bytes should be; was the file "
                               "changed while in use?",
                               path, offset, out.size())};
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<u64>(got);
  }
  return {};
}

}  // namespace tidepool
