// PosixFiles is the real file system behind Files.
#include "base/files/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/errno_text.h"
#include "base/fd.h"
#include "base/open_file.h"

namespace tidepool {
namespace {

// Faults makes the errors of one PosixFiles and of the files that it created, and records a full disk.
struct Faults {
  FileUse use;
  bool ran_full = false;

  Error operator()(const char* operation, const std::string& path, int error_number) {
    ran_full = ran_full || error_number == ENOSPC || error_number == EDQUOT;
    return output_error(operation, path, error_number, use);
  }
};

class PosixOutputFile final : public OutputFile {
 public:
  PosixOutputFile(std::string path, Fd fd, Faults& fault)
      : path_(std::move(path)), fd_(std::move(fd)), fault_(fault) {}

  Result<void> append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fault_("write", path_, errno);
      if (n == 0) return fault_("write", path_, EIO);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

  Result<void> set_mode(u32 mode) override {
    if (::fchmod(fd_.get(), mode) != 0) return fault_("set the mode of", path_, errno);
    return {};
  }

  Result<void> finish() override {
    if (::fsync(fd_.get()) != 0) return fault_("fsync", path_, errno);
    // The bytes are durable and will not be read soon: release their pages of the page cache.
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (fd_.close() != 0) return fault_("close", path_, errno);
    return {};
  }

 private:
  std::string path_;
  Fd fd_;
  Faults& fault_;
};

class PosixFiles final : public Files {
 public:
  explicit PosixFiles(FileUse use) : fault_{use} {}

  Result<std::unique_ptr<OutputFile>> create(const std::string& path, Bytes expected) override {
    RegularFile file = open_to_write(path, O_CREAT | O_TRUNC, 0644);
    if (!file && file.irregular.empty()) return fault_("create", path, file.error_number);
    if (!file) return cannot_write("create", path, file, FileUse::run);
    Fd fd = std::move(file.fd);
    // KEEP_SIZE: a file that is cut short by a fault must not look complete. File systems that cannot reserve
    // return EOPNOTSUPP; there, write() finds a full disk.
    if (expected.value > 0 &&
        ::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(expected.value)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG)) {
      return fault_(fmt::format("reserve {} bytes for", expected.value).c_str(), path, errno);
    }
    return std::unique_ptr<OutputFile>(std::make_unique<PosixOutputFile>(path, std::move(fd), fault_));
  }

  Result<void> make_directory(const std::string& path) override {
    std::error_code ec;
    std::filesystem::create_directories(path, ec);
    if (ec) return fault_("create directory", path, ec.value());
    return {};
  }

  Result<void> sync_directory(const std::string& path) override {
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return fault_("open directory", path, errno);
    if (::fsync(fd.get()) != 0) return fault_("fsync directory", path, errno);
    return {};
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) {
      return fault_(fmt::format("rename {} to", from).c_str(), to, errno);
    }
    return {};
  }

  Result<void> remove(const std::string& path) override {
    std::error_code ec;
    std::filesystem::remove_all(path, ec);
    if (ec) return fault_("remove", path, ec.value());
    return {};
  }

  bool take_ran_full() override { return std::exchange(fault_.ran_full, false); }

 private:
  Faults fault_;
};

}  // namespace

std::unique_ptr<Files> create_posix_files(FileUse use) { return std::make_unique<PosixFiles>(use); }

Error output_error(const char* operation, const std::string& path, int error_number, FileUse use) {
  return {ErrorKind::io,
          with_advice(fmt::format("cannot {} {}: {}", operation, path, errno_text(error_number)),
                      error_number, use)};
}

}  // namespace tidepool
