// A file descriptor that closes itself, and reads that either fill their buffer or say why not.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "tidepool/result.h"
#include "tidepool/types.h"

namespace tidepool {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }

  // ErrorKind::bad_input naming the file and the reason.
  static Result<FileDescriptor> open_to_read(const std::string& path);

  Result<Bytes> size(const std::string& path) const;

  // Fills `out` from `offset`. Any thread may call at any time. ErrorKind::io if the file ends
  // early or cannot be read; `path` is for the message only.
  Result<void> read(const std::string& path, u64 offset, std::span<std::byte> out) const;

 private:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace tidepool
