// manifest.json, both ways, and the check of the files it lists.
#include "checkpoint/manifest.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cctype>
#include <charconv>
#include <climits>
#include <filesystem>
#include <optional>

#include "checkpoint/trainer_state.h"
#include "json/text.h"
#include "text/hash.h"
#include "tidepool/check.h"
#include "tidepool/read_file.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr u64 version = 1;
constexpr u64 manifest_bytes_max = 1 * mib;
constexpr std::string_view format_line = R"("format": "tidepool checkpoint")";
constexpr std::string_view seal_begin = "  \"xxh3_of_the_lines_above\": \"";
constexpr std::string_view seal_end = "\"\n}\n";

std::string sealed(std::string text) {
  const u64 hash = hash_of(text);
  return text += fmt::format("{}{}{}", seal_begin, hash_text(hash), seal_end);
}

// The text is exactly what sealed() made.
bool seal_holds(const std::string& text) {
  const std::size_t tail = seal_begin.size() + 16 + seal_end.size();
  return text.size() > tail && sealed(text.substr(0, text.size() - tail)) == text;
}

std::optional<u64> parse_hash(const json::value* v) {
  if (v == nullptr || !v->is_string() || v->get_string().size() != 16) return std::nullopt;
  const auto& s = v->get_string();
  u64 hash = 0;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), hash, 16);
  if (ec != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return hash;
}

std::optional<u64> parse_count(const json::value* v) {
  if (v == nullptr || !v->is_int64() || v->get_int64() < 0) return std::nullopt;
  return static_cast<u64>(v->get_int64());
}

std::optional<Manifest> parse(const json::value& root) {
  if (!root.is_object()) return std::nullopt;
  const json::object& o = root.get_object();
  const auto step = parse_count(o.if_contains("step"));
  const auto weights = parse_hash(o.if_contains("weights_xxh3"));
  const json::value* files = o.if_contains("files");
  if (parse_count(o.if_contains("version")) != version || !step || !weights) return std::nullopt;
  if (files == nullptr || !files->is_object()) return std::nullopt;
  Manifest m{.step = *step, .weights_xxh3 = *weights, .files = {}};
  for (const auto& [file, entry] : files->get_object()) {
    if (!is_file_name(file) || !entry.is_object()) return std::nullopt;
    const auto bytes = parse_count(entry.get_object().if_contains("bytes"));
    const auto xxh3 = parse_hash(entry.get_object().if_contains("xxh3"));
    if (!bytes || !xxh3) return std::nullopt;
    m.files.push_back({std::string(std::string_view(file)), *bytes, *xxh3});
  }
  return m;
}

}  // namespace

bool is_file_name(std::string_view name) {
  if (name.starts_with(template_folder)) name.remove_prefix(template_folder.size());
  return !name.empty() && name.size() <= NAME_MAX && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

const ManifestEntry* Manifest::find(std::string_view file) const {
  const auto at =
      std::find_if(files.begin(), files.end(), [&](const ManifestEntry& e) { return e.file == file; });
  return at == files.end() ? nullptr : &*at;
}

std::string to_text(const Manifest& m) {
  std::string text = fmt::format("{{\n  {},\n", format_line);
  text += fmt::format("  \"version\": {},\n  \"step\": {},\n", version, m.step);
  text += fmt::format("  \"weights_xxh3\": \"{}\",\n  \"files\": {{\n", hash_text(m.weights_xxh3));
  for (const ManifestEntry& e : m.files) {
    text += fmt::format("    \"{}\": {{\"bytes\": {}, \"xxh3\": \"{}\"}}{}\n", e.file, e.bytes,
                        hash_text(e.xxh3), &e == &m.files.back() ? "" : ",");
  }
  return sealed(text + "  },\n");
}

bool has_manifest(const std::string& directory) {
  const std::string path = directory + "/" + manifest_file;
  std::error_code unused;
  if (!std::filesystem::exists(path, unused)) return false;
  if (std::filesystem::exists(directory + "/" + trainer_state_file, unused)) return true;
  const Result<std::string> text = read_small_file(path, manifest_bytes_max, ErrorKind::corrupt_checkpoint);
  if (!text) return text.error().kind == ErrorKind::io;  // of which its reader tells
  return text->find(format_line) != text->npos;
}

Result<void> check_manifest_version(const std::string& directory) {
  const std::string path = directory + "/" + manifest_file;
  const Result<std::string> text = read_small_file(path, manifest_bytes_max, ErrorKind::corrupt_checkpoint);
  if (!text || !seal_holds(*text)) return {};
  const Result<json::value> root = parse_json(*text, ErrorKind::corrupt_checkpoint, path);
  if (!root || !root->is_object()) return {};
  const std::optional<u64> there = parse_count(root->get_object().if_contains("version"));
  if (!there || *there == version) return {};
  return Error{
      ErrorKind::corrupt_checkpoint,
      fmt::format("{}: is of version {} and sound, and this Tidepool reads version {}: use the Tidepool that "
                  "wrote it",
                  path, *there, version)};
}

Result<Manifest> read_manifest(const std::string& directory) {
  const std::string path = directory + "/" + manifest_file;
  TRY_ASSIGN(const std::string text,
             read_small_file(path, manifest_bytes_max, ErrorKind::corrupt_checkpoint));
  if (!seal_holds(text)) {
    return Error{ErrorKind::corrupt_checkpoint, fmt::format("{}: does not match its own checksum", path)};
  }
  TRY(check_manifest_version(directory));
  TRY_ASSIGN(const json::value root, parse_json(text, ErrorKind::corrupt_checkpoint, path));
  const std::optional<Manifest> manifest = parse(root);
  if (!manifest) {
    return Error{ErrorKind::corrupt_checkpoint,
                 fmt::format("{}: is no manifest of version {}", path, version)};
  }
  return *manifest;
}

Result<void> verify_files(const std::string& directory, const Manifest& manifest,
                          std::span<std::byte> buffer) {
  for (const ManifestEntry& e : manifest.files) {
    const std::string path = directory + "/" + e.file;
    TRY_ASSIGN(const InputFile input, open_input(path, ErrorKind::corrupt_checkpoint));
    if (input.bytes != e.bytes) {
      return Error{ErrorKind::corrupt_checkpoint,
                   fmt::format("{}: holds {} bytes, the manifest says {}: {}", path, input.bytes, e.bytes,
                               input.bytes < e.bytes ? "truncated" : "something was appended")};
    }
    StreamHash hash;
    for (u64 at = 0; at < e.bytes;) {
      const auto piece = buffer.first(std::min<u64>(buffer.size(), e.bytes - at));
      TRY(read_exactly(input.fd, path, at, piece, ErrorKind::corrupt_checkpoint));
      hash.update(piece);
      at += piece.size();
    }
    if (hash.digest() != e.xxh3) {
      return Error{ErrorKind::corrupt_checkpoint,
                   fmt::format("{}: XXH3 is {}, the manifest says {}: the file was changed or damaged", path,
                               hash_text(hash.digest()), hash_text(e.xxh3))};
    }
  }
  return {};
}

}  // namespace tidepool
