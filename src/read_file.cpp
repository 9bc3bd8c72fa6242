#include "tidepool/read_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace tidepool {

Result<InputFile> open_input(const std::string& path, ErrorKind error_kind) {
  InputFile input;
  // Of a pipe that no one writes to, open would wait for ever; reads of regular files know no O_NONBLOCK.
  input.fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!input.fd) {
    const bool absent = errno == ENOENT || errno == ENOTDIR;
    const char* advice = errno == EMFILE ? "; raise `ulimit -n`" : "";
    return Error{absent ? error_kind : ErrorKind::io,
                 fmt::format("{}: cannot open: {}{}", path, std::strerror(errno), advice)};
  }
  struct stat st {};
  if (::fstat(input.fd.get(), &st) != 0) {
    return Error{ErrorKind::io, fmt::format("{}: cannot stat: {}", path, std::strerror(errno))};
  }
  if (!S_ISREG(st.st_mode)) return Error{error_kind, fmt::format("{}: is not a regular file", path)};
  input.bytes = static_cast<u64>(st.st_size);
  return input;
}

Result<void> read_exactly(const Fd& fd, const std::string& path, u64 offset, std::span<std::byte> out,
                          ErrorKind error_kind) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Error{ErrorKind::io, fmt::format("{}: cannot read at byte {}: {}", path, offset, std::strerror(errno))};
    }
    if (n == 0) {
      // To a caller for whom that is no fault of the content, it was whole when it was opened.
      const char* why = error_kind == ErrorKind::io ? "; was the file changed while in use?" : "";
      return Error{error_kind, fmt::format("{}: ends at byte {}, {} bytes early{}", path, offset, out.size(), why)};
    }
    offset += static_cast<u64>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> read_small_file(const std::string& path, u64 bytes_max, ErrorKind error_kind) {
  TRY_ASSIGN(const InputFile input, open_input(path, error_kind));
  if (input.bytes > bytes_max) {
    return Error{error_kind, fmt::format("{}: {} bytes, at most {} make sense here", path, input.bytes, bytes_max)};
  }
  std::string text(input.bytes, '\0');
  TRY(read_exactly(input.fd, path, 0, std::as_writable_bytes(std::span(text)), error_kind));
  return text;
}

}  // namespace tidepool
