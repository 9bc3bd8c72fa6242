#include "data/batches/token_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/seal.h"
#include "data/documents/answer_tokens.h"
#include "data/files/block_file.h"

namespace tidepool {

namespace json = boost::json;

namespace {

constexpr u64 about_bytes_max = 64 * kib;
constexpr u64 document_bytes = 2 * sizeof(u64);
constexpr size_t hash_digits = 16;
constexpr u64 numbers_most = 1 << 20;  // of a token

Error damaged(const std::string& file, const std::string& directory, std::string_view why) {
  return {ErrorKind::bad_input, fmt::format("{}: {}; remove {} to have it made again", file, why, directory)};
}

class About {
 public:
  About(const json::object& object, const std::string& file, const std::string& directory)
      : object_(object), file_(file), directory_(directory) {}

  Result<u64> number(std::string_view key) const {
    const json::value* v = object_.if_contains(key);
    if (v == nullptr || !v->is_int64() || v->get_int64() < 0)
      return damaged(file_, directory_, fmt::format("\"{}\" is not a count", key));
    return static_cast<u64>(v->get_int64());
  }
  // Records that were left out; the keys are missing if there were none.
  Result<BadRecords> bad_records() const {
    BadRecords out;
    if (!object_.contains("bad_records")) return out;
    TRY_ASSIGN(out.count, number("bad_records"));
    const json::value* first = object_.if_contains("first_bad_records");
    if (first == nullptr || !first->is_array() || first->get_array().size() > BadRecords::named_max)
      return damaged(file_, directory_, "\"first_bad_records\" is not a list of messages");
    for (const json::value& message : first->get_array()) {
      if (!message.is_string())
        return damaged(file_, directory_, "\"first_bad_records\" is not a list of messages");
      out.first.emplace_back(std::string_view(message.get_string()));
    }
    return out;
  }
  Result<std::string> text(std::string_view key) const {
    const json::value* v = object_.if_contains(key);
    if (v == nullptr || !v->is_string())
      return damaged(file_, directory_, fmt::format("\"{}\" is not text", key));
    return std::string(v->get_string());
  }

 private:
  const json::object& object_;
  const std::string &file_, &directory_;
};

Result<Fd> open_array(const std::string& path, const std::string& directory, u64 content_bytes) {
  const u64 bytes = block_file_bytes(content_bytes);
  TRY_ASSIGN(InputFile input, open_input(path, ErrorKind::bad_input));
  if (input.bytes != bytes)
    return damaged(path, directory, fmt::format("has {} bytes, but about.json says {}", input.bytes, bytes));
  return std::move(input.fd);
}

}  // namespace

bool is_old_cache(const std::string& directory) {
  const std::string path = directory + "/about.json";
  const Result<std::string> text = read_small_file(path, about_bytes_max, ErrorKind::bad_input);
  if (!text) return false;
  const Result<json::value> parsed = parse_json(*text, ErrorKind::bad_input, path);
  if (!parsed || !parsed->is_object()) return false;
  const Result<u64> version = About(parsed->get_object(), path, directory).number("version");
  return version && *version < static_cast<u64>(token_cache_version) && (*version == 1 || seal_holds(*text));
}

Result<std::unique_ptr<TokenCache>> TokenCache::open(const std::string& directory, const std::string& key) {
  std::unique_ptr<TokenCache> out(new TokenCache);
  out->directory_ = directory;
  out->tokens_path_ = directory + "/tokens.bin";
  out->documents_path_ = directory + "/documents.bin";
  out->values_path_ = directory + "/values.bin";
  out->shared_path_ = directory + "/shared.bin";
  out->numbers_path_ = directory + "/numbers.bin";
  const std::string path = directory + "/about.json";
  TRY_ASSIGN(const std::string text, read_small_file(path, about_bytes_max, ErrorKind::bad_input));
  const Result<json::value> parsed = parse_json(text, ErrorKind::bad_input, path);
  if (!parsed)
    return Error{ErrorKind::bad_input,
                 fmt::format("{}; remove {} to have it made again", parsed.error().message, directory)};
  if (!parsed->is_object()) return damaged(path, directory, "is not a JSON object");
  const About about(parsed->get_object(), path, directory);
  TRY_ASSIGN(const u64 found, about.number("version"));
  if (!seal_holds(text)) return damaged(path, directory, "does not match its own checksum");
  if (found != static_cast<u64>(token_cache_version))
    return damaged(path, directory,
                   fmt::format("has version {}, but this program reads {}", found, token_cache_version));
  TRY_ASSIGN(const std::string made_of, about.text("key"));
  if (made_of != key)
    return damaged(path, directory,
                   fmt::format("was made from other files or settings (key {}, not {})", made_of, key));
  TRY_ASSIGN(out->counts_.documents, about.number("documents"));
  TRY_ASSIGN(out->counts_.tokens, about.number("tokens"));
  TRY_ASSIGN(out->counts_.learned, about.number("learned"));
  TRY_ASSIGN(out->counts_.without_loss, about.number("without_loss"));
  TRY_ASSIGN(out->bad_, about.bad_records());
  TRY_ASSIGN(out->content_, about.text("xxh3"));
  if (out->counts_.tokens > (u64{1} << 50) || out->counts_.documents > out->counts_.tokens)
    return damaged(path, directory, "its counts are impossible");
  if (out->content_.size() != 2 * hash_digits)
    return damaged(path, directory, "\"xxh3\" is not two checksums");
  TRY_ASSIGN(out->tokens_, open_array(out->tokens_path_, directory, out->counts_.tokens * sizeof(u32)));
  TRY_ASSIGN(out->documents_,
             open_array(out->documents_path_, directory, out->counts_.documents * document_bytes));
  if (parsed->get_object().contains("values")) {
    TRY_ASSIGN(out->values_,
               open_array(out->values_path_, directory, out->counts_.documents * sizeof(double)));
  }
  if (parsed->get_object().contains("shared")) {
    TRY_ASSIGN(out->shared_, open_array(out->shared_path_, directory, out->counts_.documents * sizeof(u32)));
  }
  if (parsed->get_object().contains("numbers")) {
    TRY_ASSIGN(out->counts_.unknown_logps, about.number("unknown_logps"));
    TRY_ASSIGN(const u64 numbers, about.number("numbers"));
    if (numbers == 0 || numbers > numbers_most) return damaged(path, directory, "its counts are impossible");
    out->numbers_per_token_ = static_cast<u32>(numbers);
    TRY_ASSIGN(out->numbers_,
               open_array(out->numbers_path_, directory, out->counts_.tokens * numbers * sizeof(float)));
  }
  return out;
}

Result<void> TokenCache::read_array(const Fd& fd, const std::string& path, u64 begin,
                                    std::span<std::byte> out) const {
  Result<void> read = read_blocks(fd, path, begin, out);
  if (read || read.error().kind != ErrorKind::bad_input) return read;
  return Error{ErrorKind::bad_input,
               fmt::format("{}; remove {} to have it made again", read.error().message, directory_)};
}

Result<TokenCache::Document> TokenCache::document(u64 index) const {
  CHECK(index < counts_.documents, index, counts_.documents);
  u64 ends[4] = {};  // ends of the previous document and of this one
  const u64 first = index == 0 ? 0 : index - 1;
  const auto out = std::as_writable_bytes(std::span(ends).last(index == 0 ? 2 : 4));
  TRY(read_array(documents_, documents_path_, first * document_bytes, out));
  if (ends[0] >= ends[2] || ends[2] > counts_.tokens || ends[1] > ends[3] ||
      ends[3] - ends[1] >= ends[2] - ends[0])
    return damaged(
        documents_path_, directory_,
        fmt::format("document {} goes from token {} to {} of {}", index, ends[0], ends[2], counts_.tokens));
  Document found{ends[0], ends[2] - ends[0], ends[3] - ends[1]};
  if (has_values())
    TRY(read_array(values_, values_path_, index * sizeof(double),
                   std::as_writable_bytes(std::span(&found.value, 1))));
  if (shared_) {
    u32 bits = 0;
    TRY(read_array(shared_, shared_path_, index * sizeof(u32), std::as_writable_bytes(std::span(&bits, 1))));
    found.shared = {bits & ~follows_bit, (bits & follows_bit) != 0};
    if (found.shared.tokens >= found.tokens)
      return damaged(
          shared_path_, directory_,
          fmt::format("document {} shares {} of {} tokens", index, found.shared.tokens, found.tokens));
  }
  return found;
}

Result<void> TokenCache::read(u64 first_token, std::span<u32> out) const {
  CHECK(first_token + out.size() <= counts_.tokens, first_token, out.size(), counts_.tokens);
  return read_array(tokens_, tokens_path_, first_token * sizeof(u32), std::as_writable_bytes(out));
}

Result<void> TokenCache::read_numbers(u64 first_token, std::span<float> out) const {
  CHECK(first_token + out.size() / numbers_per_token_ <= counts_.tokens, first_token, out.size(),
        counts_.tokens);
  return read_array(numbers_, numbers_path_, first_token * numbers_per_token_ * sizeof(float),
                    std::as_writable_bytes(out));
}

Result<u64> TokenCache::learned_in(u64 first_token, u64 count) const {
  std::array<u32, 4096> tokens;
  u64 sum = 0;
  for (u64 at = 0; at < count; at += tokens.size()) {
    const std::span some = std::span(tokens).first(std::min<u64>(tokens.size(), count - at));
    TRY(read(first_token + at, some));
    sum += static_cast<u64>(std::ranges::count_if(some, is_learned));
  }
  return sum;
}

}  // namespace tidepool
