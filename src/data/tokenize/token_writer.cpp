#include "data/tokenize/token_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/errno_text.h"
#include "base/open_file.h"

namespace tidepool {

static_assert(std::endian::native == std::endian::little, "token files are written as they lie");

namespace {

constexpr u64 header_bytes = 256 * 4;
constexpr size_t buffer_bytes = 1 * mib;

Error io_error(const char* operation, const std::string& path, int number) {
  return {ErrorKind::io, with_advice(fmt::format("{}: cannot {}: {}", path, operation, errno_text(number)),
                                     number, FileUse::other)};
}

}  // namespace

TokenWriter::TokenWriter(std::string path, u32 vocab_size)
    : path_(std::move(path)),
      partial_(path_ + ".partial"),
      token_bytes_(vocab_size <= 0x1'0000 ? 2 : 4),
      written_(header_bytes) {
  buffer_.reserve(buffer_bytes);
}

Result<std::unique_ptr<TokenWriter>> TokenWriter::create(const std::string& path, u32 vocab_size) {
  std::unique_ptr<TokenWriter> out(new TokenWriter(path, vocab_size));
  const NoSuddenEnd whole;
  RegularFile file = open_to_write(out->partial_, O_CREAT | O_TRUNC);
  if (!file) return cannot_write("create", out->partial_, file, FileUse::other);
  out->file_ = std::move(file.fd);
  out->leftover_ = RemovedAtSuddenEnd(out->partial_, Leftover::file);
  return out;
}

TokenWriter::~TokenWriter() {
  if (file_) ::unlink(partial_.c_str());
}

Result<void> TokenWriter::write_at(u64 offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error("write", partial_, n < 0 ? errno : ENOSPC);
    offset += static_cast<u64>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> TokenWriter::flush() {
  TRY(write_at(written_, buffer_));
  written_ += buffer_.size();
  buffer_.clear();
  return {};
}

Result<void> TokenWriter::append(std::span<const u32> ids) {
  tokens_ += ids.size();
  if (tokens_ > tokens_max)
    return Error{ErrorKind::io,
                 fmt::format("{}: a token file holds at most {} tokens; tokenize the inputs in several "
                             "runs, each into a file of its own",
                             path_, tokens_max)};
  for (const u32 id : ids) {
    const size_t at = buffer_.size();
    buffer_.resize(at + token_bytes_);
    std::memcpy(buffer_.data() + at, &id, token_bytes_);
    if (buffer_.size() == buffer_bytes) TRY(flush());
  }
  return {};
}

Result<void> TokenWriter::finish() {
  CHECK(file_);
  TRY(flush());
  std::array<u32, header_bytes / 4> header{};
  header[0] = token_bytes_ == 2 ? 20240520 : 20240801;
  header[1] = token_bytes_ == 2 ? 1 : 7;
  header[2] = static_cast<u32>(tokens_);
  TRY(write_at(0, std::as_bytes(std::span(header))));
  if (::fsync(file_.get()) != 0) return io_error("write", partial_, errno);
  const NoSuddenEnd whole;
  if (std::rename(partial_.c_str(), path_.c_str()) != 0)
    return io_error("rename to its name", partial_, errno);
  leftover_ = RemovedAtSuddenEnd();
  if (file_.close() != 0) return io_error("close", path_, errno);
  return {};
}

}  // namespace tidepool
