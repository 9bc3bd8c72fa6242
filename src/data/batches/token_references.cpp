#include "data/batches/token_references.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/check.h"
#include "base/open_file.h"
#include "base/read_file.h"
#include "data/batches/cache_file.h"

namespace tidepool {
namespace {

constexpr u64 reference_header = 64;
constexpr std::chrono::milliseconds lock_pause{200};

std::array<std::byte, reference_header> header_of(const std::string& key) {
  std::array<std::byte, reference_header> out{};
  const std::string text = fmt::format("tidepool references 1 {}", key);
  CHECK(text.size() < out.size(), text);
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

constexpr u64 content_bytes(u64 numbers) { return reference_header + numbers * sizeof(float); }

Error damaged_references(const std::string& path, std::string_view why) {
  return {ErrorKind::bad_input, fmt::format("{}: {}; remove it to have it made again", path, why)};
}

}  // namespace

std::string TokenReferences::path(const std::string& cache_directory, const std::string& key) {
  return fmt::format("{}/references-{}.bin", cache_directory, key);
}

Result<std::unique_ptr<TokenReferences>> TokenReferences::open(const std::string& path,
                                                               const std::string& key, u64 tokens,
                                                               u32 numbers_per_token) {
  std::error_code unused;
  if (!std::filesystem::exists(path, unused)) return std::unique_ptr<TokenReferences>();
  TRY_ASSIGN(InputFile input, open_input(path, ErrorKind::bad_input));
  const u64 bytes = block_file_bytes(content_bytes(tokens * numbers_per_token));
  if (input.bytes != bytes)
    return damaged_references(path,
                              fmt::format("has {} bytes, but {} tokens take {}", input.bytes, tokens, bytes));
  auto out = std::make_unique<TokenReferences>();
  out->path_ = path;
  out->numbers_per_token_ = numbers_per_token;
  out->file_ = std::move(input.fd);
  std::array<std::byte, reference_header> header;
  const Result<void> read = read_blocks(out->file_, path, 0, header);
  if (!read && read.error().kind == ErrorKind::bad_input)
    return Error{ErrorKind::bad_input,
                 fmt::format("{}; remove it to have it made again", read.error().message)};
  TRY(read);
  if (header != header_of(key)) return damaged_references(path, "was made for another model or other data");
  return out;
}

Result<void> TokenReferences::read(u64 first_token, std::span<float> out) const {
  Result<void> read =
      read_blocks(file_, path_, content_bytes(first_token * numbers_per_token_), std::as_writable_bytes(out));
  if (read || read.error().kind != ErrorKind::bad_input) return read;
  return Error{ErrorKind::bad_input,
               fmt::format("{}; remove it to have it made again", read.error().message)};
}

Result<std::unique_ptr<TokenReferencesWriter>> TokenReferencesWriter::create(const std::string& path,
                                                                             const std::string& key, u64 all,
                                                                             u32 numbers_per_token) {
  std::unique_ptr<TokenReferencesWriter> out(new TokenReferencesWriter(path, key, numbers_per_token));
  out->unfinished_ = path + ".unfinished";
  for (bool locked = false; !locked;) {
    std::error_code unused;
    if (std::filesystem::exists(path, unused)) return std::unique_ptr<TokenReferencesWriter>();
    TRY_ASSIGN(locked, out->lock());
    if (!locked) std::this_thread::sleep_for(lock_pause);
  }
  TRY(out->find_whole_blocks(all));
  return out;
}

// RETURNS: false if another process writes the file, or has renamed it before it was locked here.
Result<bool> TokenReferencesWriter::lock() {
  RegularFile file = open_to_write(unfinished_, O_RDWR | O_CREAT);
  if (!file) return cannot_write("create", unfinished_, file, FileUse::cache);
  if (!lock_cache_file(file.fd)) return false;
  struct stat open {
  }, named{};
  if (::fstat(file.fd.get(), &open) != 0) return cache_fault("read", unfinished_);
  if (::stat(unfinished_.c_str(), &named) != 0 || named.st_ino != open.st_ino) return false;
  file_ = std::move(file.fd);
  return true;
}

Result<void> TokenReferencesWriter::find_whole_blocks(u64 all) {
  struct stat st {};
  if (::fstat(file_.get(), &st) != 0) return cache_fault("read", unfinished_);
  std::array<std::byte, reference_header> header;
  const u64 whole = static_cast<u64>(st.st_size) / block_bytes;
  const bool ours = whole > 0 && read_blocks(file_, unfinished_, 0, header) && header == header_of(key_);
  std::vector<std::byte> content(block_content_bytes);
  u64 good = 0;
  while (ours && good < whole && read_blocks(file_, unfinished_, good * block_content_bytes, content)) ++good;
  // The last block is padded.
  if (good > 0)
    tokens_ =
        std::min(all, (good * block_content_bytes - reference_header) / sizeof(float) / numbers_per_token_);
  return {};
}

Result<void> TokenReferencesWriter::keep(u64 tokens) {
  CHECK(tokens <= tokens_, tokens, tokens_);
  const u64 content =
      tokens_ == 0 ? 0 : content_bytes(tokens * numbers_per_token_);  // with nothing, not even the header
  const u64 blocks = content / block_content_bytes;
  std::vector<std::byte> rest(content % block_content_bytes);
  TRY(read_blocks(file_, unfinished_, blocks * block_content_bytes, rest));
  if (::ftruncate(file_.get(), static_cast<off_t>(blocks * block_bytes)) != 0 ||
      ::lseek(file_.get(), 0, SEEK_END) < 0)
    return cache_fault("write", unfinished_);
  encoder_ = BlockEncoder(blocks, std::move(rest));
  if (content == 0) encoder_.append(header_of(key_), blocks_);
  tokens_ = tokens;
  return {};
}

Result<void> TokenReferencesWriter::append(std::span<const float> numbers) {
  encoder_.append(std::as_bytes(numbers), blocks_);
  tokens_ += numbers.size() / numbers_per_token_;
  TRY(write_cache_file(file_, unfinished_, blocks_));
  blocks_.clear();
  return {};
}

Result<void> TokenReferencesWriter::finish() {
  encoder_.finish(blocks_);
  TRY(write_cache_file(file_, unfinished_, blocks_));
  if (::fsync(file_.get()) != 0) return cache_fault("write", unfinished_);
  if (std::rename(unfinished_.c_str(), path_.c_str()) != 0) return cache_fault("rename", unfinished_);
  return {};  // the lock ends with the object
}

}  // namespace tidepool
