// ProductFile reads, checks and appends lines under a file lock that several runs share.
#include "executor/product_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/errno_text.h"
#include "base/open_file.h"
#include "base/read_file.h"
#include "base/write_file.h"

namespace tidepool {
namespace {

constexpr u64 bytes_max = 16 * mib;
constexpr std::string_view first_line = "# tidepool tuned products 1\n";  // and the format's version
// Begins lines for people, which are skipped. Not '#' alone: one flipped bit turns a checksum's '3' into '#'.
constexpr std::string_view remark = "# ";
constexpr std::string_view remarks =
    "# Each line: checksum, algorithm of cuBLASLt, matrix product. Without this file algorithms are timed "
    "again,\n"
    "# and numbers may differ in their last bits.\n";
constexpr u64 hash_digits = 16;
constexpr u64 algorithm_digits = 128;  // two per byte of cublasLtMatmulAlgo_t, 64 bytes
constexpr auto next_try = std::chrono::milliseconds(20);
constexpr u32 lock_tries_max = 16;  // another program may replace the file between our open and our lock

Error file_error(const char* operation, const std::string& path) {
  const int number = errno;
  return {ErrorKind::io, with_advice(fmt::format("cannot {} {}: {}", operation, path, errno_text(number)),
                                     number, FileUse::run)};
}

std::string line_of(const std::string& product, const std::string& algorithm) {
  const std::string content = algorithm + " " + product;
  return fmt::format("{:0{}x} {}\n", XXH3_64bits(content.data(), content.size()), hash_digits, content);
}

bool is_whole(std::string_view line) {
  constexpr u64 content_at = hash_digits + 1, product_at = content_at + algorithm_digits + 1;
  if (line.size() <= product_at || line[product_at - 1] != ' ') return false;
  const std::string product(line.substr(product_at)), algorithm(line.substr(content_at, algorithm_digits));
  return algorithm.find_first_not_of("0123456789abcdef") == algorithm.npos &&
         line_of(product, algorithm) == std::string(line) + "\n";
}

struct Parsed {
  AlgorithmsByProduct choices;
  u64 end = 0;                 // end of the last whole line
  bool lacks_newline = false;  // true if the last whole line has no newline
};

Error not_such_a_file(const std::string& path) {
  return {
      ErrorKind::usage,
      fmt::format("{} is no file of timed matrix products. Remove it: products are then timed again", path)};
}

Error damaged_line(const std::string& path, u64 number) {
  return {
      ErrorKind::usage,
      fmt::format("{}, line {}: damaged, because its checksum is wrong. Remove this line: its matrix product "
                  "is then timed again, and numbers may differ in their last bits",
                  path, number)};
}

// Ignores a torn last line: a power cut leaves one if it stops a run that appends.
Result<Parsed> parse(std::string_view text, const std::string& path) {
  Parsed out;
  if (text.size() < first_line.size() && first_line.starts_with(text)) return out;
  if (!text.starts_with(first_line)) return not_such_a_file(path);
  out.end = first_line.size();
  for (u64 number = 2; out.end < text.size(); ++number) {
    const u64 newline = text.find('\n', out.end);
    const bool last = newline == text.npos;
    const std::string_view line = text.substr(out.end, last ? text.npos : newline - out.end);
    if (!line.starts_with(remark)) {
      if (!is_whole(line)) return last ? Result<Parsed>(std::move(out)) : damaged_line(path, number);
      const std::string_view content = line.substr(hash_digits + 1);
      out.choices.insert_or_assign(std::string(content.substr(algorithm_digits + 1)),
                                   std::string(content.substr(0, algorithm_digits)));
    }
    out.lacks_newline = last;
    out.end += line.size() + (last ? 0 : 1);
  }
  return out;
}

Result<Parsed> read_and_parse(const Fd& fd, const std::string& path) {
  struct stat now {};
  if (::fstat(fd.get(), &now) != 0) return file_error("look at", path);
  const u64 bytes = static_cast<u64>(now.st_size);
  if (bytes > bytes_max) return not_such_a_file(path);
  std::string text(bytes, '\0');
  TRY(read_exactly(fd, path, 0, std::as_writable_bytes(std::span(text)), ErrorKind::io));
  return parse(text, path);
}

// LockWait waits for the lock with one timeout, even if the file is replaced while it waits.
class LockWait {
 public:
  LockWait(const std::string& path, const ProductFileWait& wait) : path_(path), wait_(wait) {}

  Result<void> lock(const Fd& fd) {
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return file_error("lock", path_);
      if (is_past(wait_.patience))
        return Error{ErrorKind::io,
                     fmt::format("{} is held by another run that times its products: start again once it "
                                 "trains",
                                 path_)};
      if (is_past(wait_.silence) && wait_.say && !std::exchange(said_, true))
        wait_.say(fmt::format("waiting for {} (held by another run that times its products)", path_));
      std::this_thread::sleep_for(next_try);
    }
    return {};
  }

 private:
  bool is_past(Nanos time) const {
    return std::chrono::steady_clock::now() - began_ >= std::chrono::nanoseconds(time.value);
  }

  const std::string& path_;
  const ProductFileWait& wait_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool said_ = false;
};

// Makes a new file's name durable, in the directory that holds the file.
Result<void> sync_name(const std::string& path) {
  std::error_code unused;
  const std::filesystem::path file = std::filesystem::canonical(path, unused);
  return sync_directory(file.has_parent_path() ? file.parent_path().string() : ".", FileUse::run);
}

}  // namespace

Result<AlgorithmsByProduct> read_product_file(const std::string& path) {
  struct stat unused {};
  if (::stat(path.c_str(), &unused) != 0 && (errno == ENOENT || errno == ENOTDIR))
    return AlgorithmsByProduct();
  const Result<InputFile> input = open_input(path, ErrorKind::usage);
  if (!input)
    return Error{input.error().kind, input.error().message +
                                         "; make it readable, or remove it, and matrix "
                                         "products are timed again"};
  TRY_ASSIGN(Parsed parsed, read_and_parse(input->fd, path));
  return std::move(parsed.choices);
}

Result<ProductFile> ProductFile::open(const std::string& path, const ProductFileWait& wait) {
  const std::string directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) TRY(make_directories(directory, FileUse::run));
  LockWait waiting(path, wait);
  for (u32 i = 0; i < lock_tries_max; ++i) {
    RegularFile opened = open_to_write(path, O_RDWR | O_CREAT | O_APPEND);
    if (!opened) return cannot_write("open", path, opened, FileUse::run);
    ProductFile file(path, std::move(opened.fd));
    TRY(waiting.lock(file.fd_));
    if (!file.still_named()) continue;
    TRY(file.read());
    if (file.end_ == 0) TRY(sync_name(path));
    return file;
  }
  return Error{ErrorKind::io, fmt::format("cannot lock {}: other programs keep replacing it", path)};
}

// RETURNS: true if the name still refers to the locked file.
bool ProductFile::still_named() const {
  struct stat locked {
  }, named{};
  return ::fstat(fd_.get(), &locked) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

Result<void> ProductFile::read() {
  TRY_ASSIGN(Parsed parsed, read_and_parse(fd_, path_));
  known_ = std::move(parsed.choices);
  end_ = parsed.end;
  lacks_newline_ = parsed.lacks_newline;
  return {};
}

bool ProductFile::cut() const { return ::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0; }

Result<void> ProductFile::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t n = ::write(fd_.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return file_error("write", path_);
    text.remove_prefix(static_cast<u64>(n));
  }
  if (::fdatasync(fd_.get()) != 0) return file_error("fsync", path_);
  if (!still_named()) return Error{ErrorKind::io, fmt::format("{} was removed or replaced meanwhile", path_)};
  return {};
}

Result<void> ProductFile::append(const AlgorithmsByProduct& choices) {
  if (choices.empty()) return {};
  std::string text(lacks_newline_ ? "\n" : "");
  if (end_ == 0) text.append(first_line).append(remarks);
  for (const auto& [product, algorithm] : choices) text += line_of(product, algorithm);
  if (end_ + text.size() > bytes_max)
    return Error{ErrorKind::io,
                 fmt::format("{} would be larger than {} bytes. Remove it, and matrix products "
                             "are timed again",
                             path_, bytes_max)};
  if (!cut()) return file_error("truncate", path_);
  if (Result<void> written = write(text); !written) {
    (void)cut();
    return written;
  }
  end_ += text.size();
  lacks_newline_ = false;
  return {};
}

}  // namespace tidepool
