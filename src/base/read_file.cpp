#include "base/read_file.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/open_file.h"

namespace tidepool {

namespace {

constexpr u64 stream_piece_bytes = 64 * kib;

// Waits until bytes or the end of the pipe arrive.
// RETURNS: false on timeout.
Result<bool> wait_for_pipe(const Fd& fd, const std::string& path, Nanos patience) {
  pollfd waiting{.fd = fd.get(), .events = POLLIN, .revents = 0};
  int ready;
  do {
    ready = ::poll(&waiting, 1, static_cast<int>(patience.value / 1'000'000));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return Error{ErrorKind::io, fmt::format("{}: cannot poll: {}", path, std::strerror(errno))};
  return ready > 0;
}

// Reads to the end. A pipe ends when its last writer has closed it, but read() also reports an end while no
// writer has opened the pipe yet. So an end before the first byte counts only after poll() has seen a writer.
Result<std::string> read_to_end(const Fd& fd, const std::string& path, const WrittenFile& file,
                                bool end_counts) {
  std::string text;
  while (text.size() <= file.bytes_max) {
    const u64 before = text.size();
    text.resize(before + stream_piece_bytes);
    const ssize_t n = ::read(fd.get(), text.data() + before, stream_piece_bytes);
    const int error = errno;
    text.resize(before + static_cast<u64>(std::max<ssize_t>(n, 0)));
    if (n > 0 || (n < 0 && error == EINTR)) continue;
    if (n == 0 && (end_counts || !text.empty())) return text;
    if (n < 0 && error != EAGAIN)
      return Error{ErrorKind::io,
                   fmt::format("{}: cannot read {}: {}", path, file.what, std::strerror(error))};
    TRY_ASSIGN(end_counts, wait_for_pipe(fd, path, file.patience));
    if (!end_counts)
      return Error{file.error_kind,
                   fmt::format("{}: is a pipe, and {} came within {:g} s: see what writes to it, or {}", path,
                               text.empty() ? "nothing" : "neither more nor its end",
                               static_cast<double>(file.patience.value) / 1e9, file.advice)};
  }
  return Error{file.error_kind, fmt::format("{}: is not {}: it is larger than {} bytes; {}", path, file.what,
                                            file.bytes_max, file.advice)};
}

// A pointer is at most this long (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
constexpr u64 lfs_pointer_bytes_max = 1024;
constexpr std::string_view lfs_pointer_begin = "version https://git-lfs.github.com/spec/v1\n";

// A Git LFS pointer is a few lines of text in place of a file that Git keeps elsewhere. It is never valid
// content.
Result<void> check_is_no_lfs_pointer(const InputFile& input, const std::string& path, ErrorKind error_kind) {
  if (input.bytes < lfs_pointer_begin.size() || input.bytes >= lfs_pointer_bytes_max) return {};
  char begin[lfs_pointer_begin.size()];
  if (::pread(input.fd.get(), begin, sizeof begin, 0) != static_cast<ssize_t>(sizeof begin)) return {};
  if (std::string_view(begin, sizeof begin) != lfs_pointer_begin) return {};
  return Error{error_kind,
               fmt::format("{}: is a Git LFS pointer of {} bytes in the place of the file itself; "
                           "fetch that with  git lfs pull  where it was cloned, or download it",
                           path, input.bytes)};
}

}  // namespace

Result<InputFile> open_input(const std::string& path, ErrorKind error_kind) {
  RegularFile file = open_to_read(path);
  if (!file.irregular.empty())
    return Error{error_kind, fmt::format("{}: is not a regular file but {}", path, file.irregular)};
  if (!file) {
    const bool absent = file.error_number == ENOENT || file.error_number == ENOTDIR;
    return Error{absent ? error_kind : ErrorKind::io,
                 fmt::format("{}: cannot open: {}{}", path, std::strerror(file.error_number),
                             file.error_number == EMFILE ? "; raise `ulimit -n`" : "")};
  }
  InputFile input{.fd = std::move(file.fd)};
  struct stat st {};
  if (::fstat(input.fd.get(), &st) != 0) {
    return Error{ErrorKind::io, fmt::format("{}: cannot stat: {}", path, std::strerror(errno))};
  }
  input.bytes = static_cast<u64>(st.st_size);
  TRY(check_is_no_lfs_pointer(input, path, error_kind));
  return input;
}

Result<void> read_exactly(const Fd& fd, const std::string& path, u64 offset, std::span<std::byte> out,
                          ErrorKind error_kind) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Error{ErrorKind::io,
                   fmt::format("{}: cannot read at byte {}: {}", path, offset, std::strerror(errno))};
    }
    if (n == 0) {
      // ErrorKind::io means that the content itself is not in doubt: the file was whole when it was opened.
      const char* why = error_kind == ErrorKind::io ? "; was the file changed while in use?" : "";
      return Error{error_kind,
                   fmt::format("{}: ends at byte {}, {} bytes early{}", path, offset, out.size(), why)};
    }
    offset += static_cast<u64>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> read_small_file(const std::string& path, u64 bytes_max, ErrorKind error_kind) {
  TRY_ASSIGN(const InputFile input, open_input(path, error_kind));
  if (input.bytes > bytes_max) {
    return Error{error_kind,
                 fmt::format("{}: {} bytes, at most {} make sense here", path, input.bytes, bytes_max)};
  }
  std::string text(input.bytes, '\0');
  TRY(read_exactly(input.fd, path, 0, std::as_writable_bytes(std::span(text)), error_kind));
  return text;
}

Result<std::string> read_written_file(const std::string& path, const WrittenFile& file) {
  if (const Fd pipe = open_passed_pipe(path)) return read_to_end(pipe, path, file, false);
  const RegularFile opened = open_to_read(path);
  if (!opened.irregular.empty())
    return Error{file.error_kind, fmt::format("{}: is {}; {}", path, opened.irregular, file.advice)};
  if (!opened)
    return Error{file.error_kind, fmt::format("{}: cannot open {}: {}; {}", path, file.what,
                                              std::strerror(opened.error_number), file.advice)};
  return read_to_end(opened.fd, path, file, true);
}

bool is_there(const std::string& path) {
  std::error_code unused;
  return std::filesystem::exists(path, unused);
}

}  // namespace tidepool
