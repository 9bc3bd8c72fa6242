// The real file system.
#include "checkpoint/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "text/errno_text.h"
#include "tidepool/fd.h"

namespace tidepool {
namespace {

class PosixOutputFile final : public OutputFile {
 public:
  PosixOutputFile(std::string path, Fd fd, FileUse use)
      : path_(std::move(path)), fd_(std::move(fd)), use_(use) {}

  Result<void> append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return output_error("write", path_, errno, use_);
      if (n == 0) return output_error("write", path_, EIO, use_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

  Result<void> finish() override {
    if (::fsync(fd_.get()) != 0) return output_error("fsync", path_, errno, use_);
    // The bytes are durable and will not be read soon: leave the page cache to others.
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (fd_.close() != 0) return output_error("close", path_, errno, use_);
    return {};
  }

 private:
  std::string path_;
  Fd fd_;
  const FileUse use_;
};

class PosixFiles final : public Files {
 public:
  explicit PosixFiles(FileUse use) : use_(use) {}

  Result<std::unique_ptr<OutputFile>> create(const std::string& path, Bytes expected) override {
    Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) return output_error("create", path, errno, use_);
    // KEEP_SIZE: a file that is cut short by a fault must not look complete. File systems that cannot
    // reserve say EOPNOTSUPP; then a full disk is found by write().
    if (expected.value > 0 &&
        ::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(expected.value)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG)) {
      return output_error(fmt::format("reserve {} bytes for", expected.value).c_str(), path, errno, use_);
    }
    return std::unique_ptr<OutputFile>(std::make_unique<PosixOutputFile>(path, std::move(fd), use_));
  }

  Result<void> make_directory(const std::string& path) override {
    std::error_code ec;
    std::filesystem::create_directories(path, ec);
    if (ec) return output_error("create directory", path, ec.value(), use_);
    return {};
  }

  Result<void> sync_directory(const std::string& path) override {
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return output_error("open directory", path, errno, use_);
    if (::fsync(fd.get()) != 0) return output_error("fsync directory", path, errno, use_);
    return {};
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) {
      return output_error(fmt::format("rename {} to", from).c_str(), to, errno, use_);
    }
    return {};
  }

  Result<void> remove(const std::string& path) override {
    std::error_code ec;
    std::filesystem::remove_all(path, ec);
    if (ec) return output_error("remove", path, ec.value(), use_);
    return {};
  }

 private:
  const FileUse use_;
};

}  // namespace

std::unique_ptr<Files> create_posix_files(FileUse use) { return std::make_unique<PosixFiles>(use); }

Error output_error(const char* operation, const std::string& path, int error_number, FileUse use) {
  return {ErrorKind::io,
          with_advice(fmt::format("cannot {} {}: {}", operation, path, errno_text(error_number)),
                      error_number, use)};
}

}  // namespace tidepool
