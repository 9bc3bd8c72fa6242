// TokenCacheWriter writes a token cache under a temporary name, and renames it when it is complete.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/errno_text.h"
#include "base/json/text.h"
#include "base/open_file.h"
#include "base/text/seal.h"
#include "data/batches/cache_file.h"
#include "data/batches/token_cache.h"
#include "data/documents/answer_tokens.h"
#include "data/files/block_file.h"

namespace tidepool {

namespace fs = std::filesystem;

namespace {

constexpr size_t flush_tokens = 1 << 20;
constexpr std::string_view unfinished_mark = ".unfinished-";
constexpr size_t key_digits = 16;
constexpr u32 names_max = 16;  // attempts: another process may clear a directory before it is locked

Result<Fd> create_file(const std::string& path) {
  RegularFile file = open_to_write(path, O_CREAT | O_EXCL);
  if (!file) return cannot_write("create", path, file, FileUse::cache);
  return std::move(file.fd);
}

std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

Result<void> sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return cache_fault("sync", path);
  return {};
}

}  // namespace

struct TokenCacheWriter::Files {
  Fd tokens, documents, values, shared, numbers;
  BlockEncoder token_blocks, document_blocks, value_blocks, shared_blocks, number_blocks;
  std::vector<std::byte> blocks;  // about to be written to a file
  XXH3_state_t *tokens_hash = XXH3_createState(), *documents_hash = XXH3_createState();
  std::vector<RemovedAtSuddenEnd> leftovers;
  Files() {
    XXH3_64bits_reset(tokens_hash);
    XXH3_64bits_reset(documents_hash);
  }
  ~Files() {
    XXH3_freeState(tokens_hash);
    XXH3_freeState(documents_hash);
  }
};

TokenCacheWriter::TokenCacheWriter(std::string directory, std::string key, CacheParts parts)
    : directory_(std::move(directory)),
      key_(std::move(key)),
      parts_(parts),
      files_(std::make_unique<Files>()) {}

TokenCacheWriter::~TokenCacheWriter() {
  std::error_code ignored;
  if (files_ && !unfinished_.empty()) fs::remove_all(unfinished_, ignored);
}

Result<std::unique_ptr<TokenCacheWriter>> TokenCacheWriter::create(const std::string& directory,
                                                                   const std::string& key, CacheParts parts) {
  std::unique_ptr<TokenCacheWriter> out(new TokenCacheWriter(directory, key, parts));
  for (u32 i = 0; i < names_max; ++i) {
    TRY_ASSIGN(const bool made, out->make_unfinished());
    if (made) return out;
  }
  return Error{
      ErrorKind::io,
      fmt::format("{}: other processes keep removing the directories that are made there", directory)};
}

// RETURNS: false if another process removed the directory before it was locked.
Result<bool> TokenCacheWriter::make_unfinished() {
  const NoSuddenEnd whole;
  unfinished_ = fmt::format("{}{}{}", directory_, unfinished_mark, random_name());
  std::error_code fault;
  fs::create_directories(unfinished_, fault);
  if (fault)
    return Error{
        ErrorKind::io,
        fmt::format("{}: cannot make the directory: {}; set data.cache to a directory that can be written",
                    unfinished_, fault.message())};
  files_->leftovers.clear();
  for (const char* name :
       {"/tokens.bin", "/documents.bin", "/values.bin", "/shared.bin", "/numbers.bin", "/about.json"})
    files_->leftovers.emplace_back(unfinished_ + name, Leftover::file);
  files_->leftovers.emplace_back(unfinished_, Leftover::directory);
  Result<Fd> tokens = create_file(unfinished_ + "/tokens.bin");
  if (!tokens && !fs::exists(unfinished_, fault)) return false;
  if (!tokens) return tokens.error();
  if (!lock_cache_file(*tokens)) return false;
  files_->tokens = std::move(*tokens);
  TRY_ASSIGN(files_->documents, create_file(unfinished_ + "/documents.bin"));
  if (parts_.values) {
    TRY_ASSIGN(files_->values, create_file(unfinished_ + "/values.bin"));
  }
  if (parts_.shared) {
    TRY_ASSIGN(files_->shared, create_file(unfinished_ + "/shared.bin"));
  }
  if (parts_.numbers > 0) {
    TRY_ASSIGN(files_->numbers, create_file(unfinished_ + "/numbers.bin"));
  }
  return true;
}

Result<void> TokenCacheWriter::append(std::span<const u32> tokens, std::span<const float> numbers) {
  CHECK(numbers.size() == parts_.numbers * tokens.size(), numbers.size(), tokens.size(), parts_.numbers);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  for (size_t i = 0; i < tokens.size() && parts_.numbers > 0; ++i)
    document_unknown_ += is_learned(tokens[i]) && std::isnan(numbers[i * parts_.numbers]);
  // The document's first token cannot be predicted: nothing comes before it.
  const std::span counted = document_tokens_ == 0 && !tokens.empty() ? tokens.subspan(1) : tokens;
  document_tokens_ += tokens.size();
  document_learned_ += static_cast<u64>(std::ranges::count_if(counted, is_learned));
  return std::max(tokens_.size(), numbers_.size()) >= flush_tokens ? flush() : Result<void>();
}

Result<void> TokenCacheWriter::end_document(double value, SharedPrompt shared) {
  const u64 tokens = std::exchange(document_tokens_, 0), learned = std::exchange(document_learned_, 0),
            unknown = std::exchange(document_unknown_, 0);
  if (learned == 0) {
    ++counts_.without_loss;
    tokens_.resize(document_begin_);
    numbers_.resize(document_begin_ * parts_.numbers);
    return {};
  }
  ++counts_.documents;
  counts_.tokens += tokens;
  counts_.learned += learned;
  counts_.unknown_logps += unknown;
  document_begin_ = tokens_.size();
  ends_.push_back(counts_.tokens);
  ends_.push_back(counts_.learned);
  if (parts_.values) values_.push_back(value);
  if (parts_.shared) shared_.push_back(shared.tokens | (shared.follows ? follows_bit : 0));
  return {};
}

// Writes whole documents, and the beginning of the current one if it is known to be kept.
Result<void> TokenCacheWriter::flush() {
  const size_t count = document_learned_ > 0 ? tokens_.size() : document_begin_;
  const auto tokens = std::as_bytes(std::span(tokens_).first(count)), ends = std::as_bytes(std::span(ends_));
  XXH3_64bits_update(files_->tokens_hash, tokens.data(), tokens.size());
  XXH3_64bits_update(files_->documents_hash, ends.data(), ends.size());
  files_->token_blocks.append(tokens, files_->blocks);
  TRY(write_blocks(files_->tokens, "tokens.bin"));
  files_->document_blocks.append(ends, files_->blocks);
  TRY(write_blocks(files_->documents, "documents.bin"));
  const auto add = [&](auto numbers, BlockEncoder& blocks, const Fd& file, const char* name) {
    const auto bytes = std::as_bytes(numbers);
    XXH3_64bits_update(files_->documents_hash, bytes.data(), bytes.size());
    blocks.append(bytes, files_->blocks);
    return write_blocks(file, name);
  };
  if (parts_.values) {
    TRY(add(std::span(values_), files_->value_blocks, files_->values, "values.bin"));
    values_.clear();
  }
  if (parts_.shared) {
    TRY(add(std::span(shared_), files_->shared_blocks, files_->shared, "shared.bin"));
    shared_.clear();
  }
  if (parts_.numbers > 0) {
    const size_t numbers = count * parts_.numbers;
    TRY(add(std::span(numbers_).first(numbers), files_->number_blocks, files_->numbers, "numbers.bin"));
    numbers_.erase(numbers_.begin(), numbers_.begin() + static_cast<i64>(numbers));
  }
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<i64>(count));
  document_begin_ = 0;
  ends_.clear();
  return {};
}

Result<void> TokenCacheWriter::write_blocks(const Fd& fd, const char* name) {
  TRY(write_cache_file(fd, fmt::format("{}/{}", unfinished_, name), files_->blocks));
  files_->blocks.clear();
  return {};
}

std::string TokenCacheWriter::about() const {
  boost::json::object about = {{"version", token_cache_version},
                               {"key", key_},
                               {"documents", counts_.documents},
                               {"tokens", counts_.tokens},
                               {"learned", counts_.learned},
                               {"without_loss", counts_.without_loss},
                               {"xxh3", fmt::format("{:016x}{:016x}", XXH3_64bits_digest(files_->tokens_hash),
                                                    XXH3_64bits_digest(files_->documents_hash))}};
  if (parts_.values) about["values"] = true;
  if (parts_.shared) about["shared"] = true;
  if (parts_.numbers > 0) {
    about["numbers"] = parts_.numbers;
    about["unknown_logps"] = counts_.unknown_logps;
  }
  if (bad_.count > 0) {
    about["bad_records"] = bad_.count;
    about["first_bad_records"] = boost::json::array(bad_.first.begin(), bad_.first.end());
  }
  return sealed_object(json_text(about, JsonStyle::pretty));
}

Result<void> TokenCacheWriter::write_about() {
  const std::string path = unfinished_ + "/about.json", text = about();
  TRY_ASSIGN(Fd file, create_file(path));
  TRY(write_cache_file(file, path, std::as_bytes(std::span(text))));
  return finish_cache_file(file, path);
}

Result<void> TokenCacheWriter::finish() {
  CHECK(document_tokens_ == 0, document_tokens_);
  TRY(flush());
  files_->token_blocks.finish(files_->blocks);
  TRY(write_blocks(files_->tokens, "tokens.bin"));
  files_->document_blocks.finish(files_->blocks);
  TRY(write_blocks(files_->documents, "documents.bin"));
  const auto end = [&](BlockEncoder& blocks, Fd& file, const char* name) -> Result<void> {
    blocks.finish(files_->blocks);
    TRY(write_blocks(file, name));
    return finish_cache_file(file, fmt::format("{}/{}", unfinished_, name));
  };
  if (parts_.values) TRY(end(files_->value_blocks, files_->values, "values.bin"));
  if (parts_.shared) TRY(end(files_->shared_blocks, files_->shared, "shared.bin"));
  if (parts_.numbers > 0) TRY(end(files_->number_blocks, files_->numbers, "numbers.bin"));
  // tokens.bin stays open, and so locked, until the directory is renamed.
  if (::fsync(files_->tokens.get()) != 0) return cache_fault("write", unfinished_ + "/tokens.bin");
  TRY(finish_cache_file(files_->documents, unfinished_ + "/documents.bin"));
  TRY(write_about());
  TRY(sync_directory(unfinished_));
  const NoSuddenEnd whole;
  if (::rename(unfinished_.c_str(), directory_.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return {};  // the destructor removes the unfinished directory
    return cache_fault("rename", unfinished_);
  }
  files_.reset();
  const std::string parent = fs::path(directory_).parent_path().string();
  return sync_directory(parent.empty() ? "." : parent);
}

void remove_unfinished_caches(const std::string& directory) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.path().filename().string().find(unfinished_mark) == key_digits) found.push_back(entry.path());
  }
  for (const fs::path& path : found) {
    const RegularFile tokens = open_to_write(path / "tokens.bin", O_RDWR);
    if (!tokens) {
      ::rmdir(path.c_str());  // removed if empty: a process that has just made it will make another
    } else if (lock_cache_file(tokens.fd)) {
      fs::remove_all(path, ignored);
    }
  }
}

}  // namespace tidepool
