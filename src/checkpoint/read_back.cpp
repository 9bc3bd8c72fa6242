#include "checkpoint/read_back.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "base/errno_text.h"
#include "base/open_file.h"
#include "base/text/hash.h"

namespace tidepool {
namespace {

constexpr u64 piece_bytes = 1 * mib;  // a multiple of the page size, for O_DIRECT

using Memory = std::unique_ptr<std::byte[], void (*)(void*)>;

RegularFile open_past_the_cache(const std::string& path) {
  RegularFile file = open_own_to_read(path, O_DIRECT);
  if (file) return file;
  file = open_own_to_read(path);
  if (file) ::posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  return file;
}

Error came_back(const std::string& path, const std::string& how) {
  return {
      ErrorKind::io,
      fmt::format("{}: {} when it was read back: the disk may be failing; see the kernel's messages (dmesg)",
                  path, how)};
}

Result<void> read_file_back(const std::string& path, const ListedFile& listed, const Memory& memory) {
  const RegularFile file = open_past_the_cache(path);
  if (!file) return came_back(path, "cannot be opened (" + file.reason() + ")");
  StreamHash hash;
  u64 at = 0;
  while (true) {
    const ssize_t n = ::pread(file.fd.get(), memory.get(), piece_bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return came_back(path, "failed (" + errno_text(errno) + ")");
    if (n == 0) break;
    hash.update(std::span(memory.get(), static_cast<u64>(n)));
    at += static_cast<u64>(n);
    if (at % piece_bytes != 0) break;  // end of file: O_DIRECT needs an aligned offset
  }
  if (at == listed.bytes && hash.digest() == listed.xxh3) return {};
  return came_back(path, fmt::format("was {} bytes with XXH3 {}, but {} bytes with {} were written", at,
                                     hash_text(hash.digest()), listed.bytes, hash_text(listed.xxh3)));
}

}  // namespace

Result<void> read_back(const std::string& directory, const Manifest& manifest) {
  const Memory memory(static_cast<std::byte*>(std::aligned_alloc(frame_alignment, piece_bytes)), std::free);
  CHECK(memory != nullptr);
  for (const ListedFile& listed : manifest.files)
    TRY(read_file_back(directory + "/" + listed.file, listed, memory));
  return {};
}

}  // namespace tidepool
