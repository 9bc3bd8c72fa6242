#include "base/files/file_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cctype>
#include <charconv>
#include <climits>

#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/hash.h"
#include "base/text/path_text.h"
#include "base/text/seal.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr u64 kept_list_bytes_max = 64 * kib;
constexpr std::string_view kept_list_format = R"("format": "tidepool model files")";

Error damaged(const std::string& path, std::string_view reason) {
  return {ErrorKind::corrupt_checkpoint, fmt::format("{}: {}", path, reason)};
}

Result<InputFile> open_listed(const std::string& path, const ListedFile& e) {
  TRY_ASSIGN(InputFile input, open_input(path, ErrorKind::corrupt_checkpoint));
  if (input.bytes == e.bytes) return input;
  return damaged(path, fmt::format("holds {} bytes, the manifest says {}: {}", input.bytes, e.bytes,
                                   input.bytes < e.bytes ? "truncated" : "something was appended"));
}

}  // namespace

bool is_file_name(std::string_view name) {
  if (name.starts_with(template_folder)) name.remove_prefix(template_folder.size());
  return !name.empty() && name.size() <= NAME_MAX && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

const ListedFile* find_listed(std::span<const ListedFile> files, std::string_view file) {
  const auto at = std::ranges::find(files, file, &ListedFile::file);
  return at == files.end() ? nullptr : &*at;
}

std::string file_list_text(std::span<const ListedFile> files) {
  std::string text = "  \"files\": {\n";
  for (const ListedFile& e : files) {
    text += fmt::format("    \"{}\": {{\"bytes\": {}, \"xxh3\": \"{}\"}}{}\n", e.file, e.bytes,
                        hash_text(e.xxh3), &e == &files.back() ? "" : ",");
  }
  return text + "  },\n";
}

std::optional<u64> parse_hash(const json::value* v) {
  if (v == nullptr || !v->is_string() || v->get_string().size() != 16) return std::nullopt;
  const auto& s = v->get_string();
  u64 hash = 0;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), hash, 16);
  if (ec != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return hash;
}

std::optional<std::vector<ListedFile>> parse_file_list(const json::value* list) {
  if (list == nullptr || !list->is_object()) return std::nullopt;
  std::vector<ListedFile> out;
  for (const auto& [file, entry] : list->get_object()) {
    if (!is_file_name(file) || !entry.is_object()) return std::nullopt;
    const json::value* bytes = entry.get_object().if_contains("bytes");
    const auto xxh3 = parse_hash(entry.get_object().if_contains("xxh3"));
    if (bytes == nullptr || !bytes->is_int64() || bytes->get_int64() < 0 || !xxh3) return std::nullopt;
    out.push_back({std::string(std::string_view(file)), static_cast<u64>(bytes->get_int64()), *xxh3});
  }
  return out;
}

Result<void> check_length(const std::string& directory, const ListedFile& e) {
  TRY(open_listed(directory + "/" + e.file, e));
  return {};
}

Result<void> check_file(const std::string& directory, const ListedFile& e, std::span<std::byte> buffer) {
  const std::string path = directory + "/" + e.file;
  TRY_ASSIGN(const InputFile input, open_listed(path, e));
  StreamHash hash;
  for (u64 at = 0; at < e.bytes;) {
    const auto piece = buffer.first(std::min<u64>(buffer.size(), e.bytes - at));
    TRY(read_exactly(input.fd, path, at, piece, ErrorKind::corrupt_checkpoint));
    hash.update(piece);
    at += piece.size();
  }
  if (hash.digest() == e.xxh3) return {};
  return damaged(path, fmt::format("XXH3 is {}, the manifest says {}: the file was changed or damaged",
                                   hash_text(hash.digest()), hash_text(e.xxh3)));
}

std::string kept_list_text(std::span<const ListedFile> files) {
  return sealed(fmt::format("{{\n  {},\n  \"version\": 1,\n{}", kept_list_format, file_list_text(files)));
}

Result<std::optional<std::vector<ListedFile>>> read_kept_list(const std::string& directory) {
  const std::string path = directory + "/" + kept_list_file;
  if (!is_named(path)) return std::optional<std::vector<ListedFile>>();
  TRY_ASSIGN(const std::string text,
             read_small_file(path, kept_list_bytes_max, ErrorKind::corrupt_checkpoint));
  if (!seal_holds(text)) return damaged(path, "does not match its own checksum");
  TRY_ASSIGN(const json::value root, parse_json(text, ErrorKind::corrupt_checkpoint, path));
  std::optional<std::vector<ListedFile>> files;
  if (root.is_object()) files = parse_file_list(root.get_object().if_contains("files"));
  if (!files) return damaged(path, "is no list of files");
  return files;
}

}  // namespace tidepool
