#include "data/token_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "data/answer_tokens.h"
#include "json/text.h"
#include "text/errno_text.h"
#include "tidepool/check.h"
#include "tidepool/read_file.h"

namespace tidepool {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr size_t flush_tokens = 1 << 20;
constexpr u64 about_bytes_max = 64 * kib;
constexpr u64 document_bytes = 2 * sizeof(u64);
constexpr i64 version = 1;
constexpr std::string_view unfinished_mark = ".unfinished-";

Error failed(std::string_view what, const std::string& path) {
  const int error = errno;
  return {ErrorKind::io, with_advice(fmt::format("{}: cannot {}: {}", path, what, errno_text(error)), error)};
}

Result<Fd> create_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return failed("create", path);
  return fd;
}

Result<void> write_all(const Fd& fd, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", path);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> finish_file(Fd& fd, const std::string& path) {
  if (::fsync(fd.get()) != 0 || fd.close() != 0) return failed("write", path);
  return {};
}

Result<void> sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return failed("sync", path);
  return {};
}

Error damaged(const std::string& file, const std::string& directory, std::string_view why) {
  return {ErrorKind::bad_input, fmt::format("{}: {}; remove {} to have it made again", file, why, directory)};
}

}  // namespace

struct TokenCacheWriter::Files {
  Fd tokens, documents;
  XXH3_state_t* hash = XXH3_createState();
  ~Files() { XXH3_freeState(hash); }
};

TokenCacheWriter::TokenCacheWriter(std::string directory, std::string key)
    : directory_(std::move(directory)),
      key_(std::move(key)),
      unfinished_(fmt::format("{}{}{}", directory_, unfinished_mark, ::getpid())),
      files_(std::make_unique<Files>()) {
  XXH3_64bits_reset(files_->hash);
}

TokenCacheWriter::~TokenCacheWriter() {
  std::error_code ignored;
  if (files_) fs::remove_all(unfinished_, ignored);
}

Result<std::unique_ptr<TokenCacheWriter>> TokenCacheWriter::create(const std::string& directory,
                                                                   const std::string& key) {
  std::unique_ptr<TokenCacheWriter> out(new TokenCacheWriter(directory, key));
  std::error_code fault;
  fs::remove_all(out->unfinished_, fault);
  fs::create_directories(out->unfinished_, fault);
  if (fault)
    return Error{
        ErrorKind::io,
        fmt::format("{}: cannot make the directory: {}; set data.cache to a place that can be written",
                    out->unfinished_, fault.message())};
  TRY_ASSIGN(out->files_->tokens, create_file(out->unfinished_ + "/tokens.bin"));
  TRY_ASSIGN(out->files_->documents, create_file(out->unfinished_ + "/documents.bin"));
  return out;
}

Result<void> TokenCacheWriter::append(std::span<const u32> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return {};
}

Result<void> TokenCacheWriter::end_document() {
  const std::span document = std::span(tokens_).subspan(document_begin_);
  // The first token has nothing before it that it could be predicted from.
  const u64 learned =
      document.empty() ? 0 : static_cast<u64>(std::ranges::count_if(document.subspan(1), is_learned));
  if (learned == 0) {
    ++counts_.without_loss;
    tokens_.resize(document_begin_);
    return {};
  }
  ++counts_.documents;
  counts_.tokens += document.size();
  counts_.learned += learned;
  document_begin_ = tokens_.size();
  ends_.push_back(counts_.tokens);
  ends_.push_back(counts_.learned);
  return tokens_.size() >= flush_tokens ? flush() : Result<void>();
}

Result<void> TokenCacheWriter::flush() {
  const auto tokens = std::as_bytes(std::span(tokens_).first(document_begin_)),
             ends = std::as_bytes(std::span(ends_));
  XXH3_64bits_update(files_->hash, tokens.data(), tokens.size());
  XXH3_64bits_update(files_->hash, ends.data(), ends.size());
  TRY(write_all(files_->tokens, unfinished_ + "/tokens.bin", tokens));
  TRY(write_all(files_->documents, unfinished_ + "/documents.bin", ends));
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<i64>(document_begin_));
  document_begin_ = 0;
  ends_.clear();
  return {};
}

std::string TokenCacheWriter::about() const {
  const json::object about = {{"version", version},
                              {"key", key_},
                              {"documents", counts_.documents},
                              {"tokens", counts_.tokens},
                              {"learned", counts_.learned},
                              {"without_loss", counts_.without_loss},
                              {"xxh3", fmt::format("{:016x}", XXH3_64bits_digest(files_->hash))}};
  return json_text(about, JsonStyle::pretty);
}

Result<void> TokenCacheWriter::finish() {
  CHECK(document_begin_ == tokens_.size(), document_begin_, tokens_.size());
  TRY(flush());
  TRY(finish_file(files_->tokens, unfinished_ + "/tokens.bin"));
  TRY(finish_file(files_->documents, unfinished_ + "/documents.bin"));
  const std::string path = unfinished_ + "/about.json";
  TRY_ASSIGN(Fd file, create_file(path));
  const std::string text = about();
  TRY(write_all(file, path, std::as_bytes(std::span(text))));
  TRY(finish_file(file, path));
  TRY(sync_directory(unfinished_));
  if (::rename(unfinished_.c_str(), directory_.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) return {};  // the destructor removes this one
    return failed("rename", unfinished_);
  }
  files_.reset();
  const std::string parent = fs::path(directory_).parent_path().string();
  return sync_directory(parent.empty() ? "." : parent);
}

namespace {

class About {
 public:
  About(const json::object& object, const std::string& file, const std::string& directory)
      : object_(object), file_(file), directory_(directory) {}

  Result<u64> number(std::string_view key) const {
    const json::value* v = object_.if_contains(key);
    if (v == nullptr || !v->is_int64() || v->get_int64() < 0)
      return damaged(file_, directory_, fmt::format("\"{}\" is no count", key));
    return static_cast<u64>(v->get_int64());
  }
  Result<std::string> text(std::string_view key) const {
    const json::value* v = object_.if_contains(key);
    if (v == nullptr || !v->is_string())
      return damaged(file_, directory_, fmt::format("\"{}\" is no text", key));
    return std::string(v->get_string());
  }

 private:
  const json::object& object_;
  const std::string &file_, &directory_;
};

Result<Fd> open_array(const std::string& directory, const char* name, u64 bytes) {
  const std::string path = fmt::format("{}/{}", directory, name);
  TRY_ASSIGN(InputFile input, open_input(path, ErrorKind::bad_input));
  if (input.bytes != bytes)
    return damaged(path, directory, fmt::format("has {} bytes, and about.json says {}", input.bytes, bytes));
  return std::move(input.fd);
}

}  // namespace

Result<std::unique_ptr<TokenCache>> TokenCache::open(const std::string& directory, const std::string& key) {
  std::unique_ptr<TokenCache> out(new TokenCache);
  out->directory_ = directory;
  const std::string path = directory + "/about.json";
  TRY_ASSIGN(const std::string text, read_small_file(path, about_bytes_max, ErrorKind::bad_input));
  const Result<json::value> parsed = parse_json(text, ErrorKind::bad_input, path);
  if (!parsed) return Error{ErrorKind::bad_input, fmt::format("{}; remove {} to have it made again", parsed.error().message, directory)};
  if (!parsed->is_object()) return damaged(path, directory, "is no JSON object");
  const About about(parsed->get_object(), path, directory);
  TRY_ASSIGN(const u64 found, about.number("version"));
  if (found != static_cast<u64>(version))
    return damaged(path, directory,
                   fmt::format("is of version {}, and this program reads {}", found, version));
  TRY_ASSIGN(const std::string made_of, about.text("key"));
  if (made_of != key)
    return damaged(path, directory, fmt::format("was made of something else (key {}, not {})", made_of, key));
  TRY_ASSIGN(out->counts_.documents, about.number("documents"));
  TRY_ASSIGN(out->counts_.tokens, about.number("tokens"));
  TRY_ASSIGN(out->counts_.learned, about.number("learned"));
  TRY_ASSIGN(out->counts_.without_loss, about.number("without_loss"));
  TRY_ASSIGN(out->content_, about.text("xxh3"));
  if (out->counts_.tokens > (u64{1} << 50) || out->counts_.documents > out->counts_.tokens)
    return damaged(path, directory, "its counts cannot be");
  TRY_ASSIGN(out->tokens_, open_array(directory, "tokens.bin", out->counts_.tokens * sizeof(u32)));
  TRY_ASSIGN(out->documents_,
             open_array(directory, "documents.bin", out->counts_.documents * document_bytes));
  return out;
}

Result<TokenCache::Document> TokenCache::document(u64 index) const {
  CHECK(index < counts_.documents, index, counts_.documents);
  u64 ends[4] = {};  // of the one before, and of this
  const std::string path = directory_ + "/documents.bin";
  const u64 first = index == 0 ? 0 : index - 1;
  const auto out = std::as_writable_bytes(std::span(ends).last(index == 0 ? 2 : 4));
  TRY(read_exactly(documents_, path, first * document_bytes, out, ErrorKind::io));
  if (ends[0] >= ends[2] || ends[2] > counts_.tokens || ends[1] > ends[3] ||
      ends[3] - ends[1] >= ends[2] - ends[0])
    return damaged(
        path, directory_,
        fmt::format("document {} goes from token {} to {} of {}", index, ends[0], ends[2], counts_.tokens));
  return Document{ends[0], ends[2] - ends[0], ends[3] - ends[1]};
}

Result<void> TokenCache::read(u64 first_token, std::span<u32> out) const {
  CHECK(first_token + out.size() <= counts_.tokens, first_token, out.size(), counts_.tokens);
  return read_exactly(tokens_, directory_ + "/tokens.bin", first_token * sizeof(u32),
                      std::as_writable_bytes(out), ErrorKind::io);
}

void remove_unfinished_caches(const std::string& directory) {
  const fs::path path(directory);
  const std::string prefix = path.filename().string() + std::string(unfinished_mark);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const int pid = std::atoi(name.c_str() + prefix.size());
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace tidepool
