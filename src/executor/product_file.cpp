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

#include "base/errno_text.h"
#include "base/read_file.h"
#include "base/write_file.h"

namespace tidepool {
namespace {

constexpr u64 bytes_max = 16 * mib;
constexpr std::string_view header =
    "# What a clock chose for matrix products on GPUs. Each line: its checksum, an algorithm of cuBLASLt, "
    "and\n"
    "# the product. Without this file algorithms are timed again, and numbers may differ in their last "
    "bits.\n";
constexpr u64 hash_digits = 16;
constexpr u64 algorithm_digits = 128;  // of cublasLtMatmulAlgo_t's 64 bytes
constexpr auto next_try = std::chrono::milliseconds(20);

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
  u64 end = 0;  // of the last line that was written whole
};

// A last line without its end is what a power cut leaves of a run that was adding it.
Result<Parsed> parse(std::string_view text, const std::string& path) {
  Parsed out;
  if (header.starts_with(text)) {
    if (text == header) out.end = text.size();
    return out;
  }
  if (!text.starts_with(header))
    return Error{ErrorKind::usage,
                 fmt::format("{} is no file of timed matrix products. Remove it, and they are "
                             "timed again",
                             path)};
  u64 line_number = 2;
  for (out.end = header.size();;) {
    const u64 line_end = text.find('\n', out.end);
    if (line_end == text.npos) return out;
    const std::string_view line = text.substr(out.end, line_end - out.end);
    ++line_number;
    if (!is_whole(line))
      return Error{
          ErrorKind::usage,
          fmt::format("{}, line {}: damaged, as its checksum shows. Remove this line, and its matrix "
                      "product is timed again; numbers may then differ in their last bits",
                      path, line_number)};
    const std::string_view content = line.substr(hash_digits + 1);
    out.choices.insert_or_assign(std::string(content.substr(algorithm_digits + 1)),
                                 std::string(content.substr(0, algorithm_digits)));
    out.end = line_end + 1;
  }
}

// RETURNS: false if another process has the lock for longer than that.
Result<bool> lock_within(const Fd& fd, const std::string& path, Nanos patience) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience.value);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_error("lock", path);
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(next_try);
  }
  return true;
}

}  // namespace

Result<AlgorithmsByProduct> read_product_file(const std::string& path) {
  struct stat unused {};
  if (::stat(path.c_str(), &unused) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return AlgorithmsByProduct();
    return file_error("look for", path);
  }
  TRY_ASSIGN(const std::string text, read_small_file(path, bytes_max, ErrorKind::usage));
  TRY_ASSIGN(Parsed parsed, parse(text, path));
  return std::move(parsed.choices);
}

Result<ProductFile> ProductFile::open(const std::string& path, Nanos patience) {
  const std::string directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) TRY(make_directories(directory, FileUse::run));
  TRY(check_can_be_file(path));
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) return file_error("open", path);
  TRY_ASSIGN(const bool locked, lock_within(fd, path, patience));
  if (!locked)
    return Error{ErrorKind::io, fmt::format("{} is held by another process, which times its products and has "
                                            "not ended; end it, or name another output.dir",
                                            path)};
  ProductFile file(path, std::move(fd));
  TRY(file.read());
  return file;
}

Result<void> ProductFile::read() {
  struct stat now {};
  if (::fstat(fd_.get(), &now) != 0) return file_error("look at", path_);
  const u64 bytes = static_cast<u64>(now.st_size);
  if (bytes > bytes_max)
    return Error{ErrorKind::usage,
                 fmt::format("{} is no file of timed matrix products: it has {} bytes. Remove "
                             "it, and they are timed again",
                             path_, bytes)};
  std::string text(bytes, '\0');
  TRY(read_exactly(fd_, path_, 0, std::as_writable_bytes(std::span(text)), ErrorKind::io));
  TRY_ASSIGN(Parsed parsed, parse(text, path_));
  known_ = std::move(parsed.choices);
  end_ = parsed.end;
  return {};
}

Result<void> ProductFile::append(const AlgorithmsByProduct& choices) {
  if (choices.empty()) return {};
  std::string text(end_ == 0 ? header : "");
  for (const auto& [product, algorithm] : choices) text += line_of(product, algorithm);
  const auto cut = [&] { return ::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0; };
  if (!cut()) return file_error("truncate", path_);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = ::write(fd_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const Error error = file_error("write", path_);
      (void)cut();
      return error;
    }
    rest.remove_prefix(static_cast<u64>(n));
  }
  if (::fdatasync(fd_.get()) != 0) {
    const Error error = file_error("fsync", path_);
    (void)cut();
    return error;
  }
  if (end_ == 0) {
    const std::string directory = std::filesystem::path(path_).parent_path();
    TRY(sync_directory(directory.empty() ? "." : directory, FileUse::run));
  }
  end_ += text.size();
  return {};
}

}  // namespace tidepool
