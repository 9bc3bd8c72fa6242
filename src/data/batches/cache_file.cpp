#include "data/batches/cache_file.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/errno_text.h"

namespace tidepool {

Error cache_fault(std::string_view what, const std::string& path) {
  const int error = errno;
  return {ErrorKind::io, with_advice(fmt::format("{}: cannot {}: {}", path, what, errno_text(error)), error,
                                     FileUse::cache)};
}

Result<void> write_cache_file(const Fd& fd, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cache_fault("write", path);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> finish_cache_file(Fd& fd, const std::string& path) {
  if (::fsync(fd.get()) != 0 || fd.close() != 0) return cache_fault("write", path);
  return {};
}

bool lock_cache_file(const Fd& fd) {
  struct stat st {};
  return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(fd.get(), &st) == 0 && st.st_nlink > 0;
}

}  // namespace tidepool
