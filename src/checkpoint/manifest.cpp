// Reads and writes manifest.json, and checks the files that it lists.
#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <optional>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/hash.h"
#include "base/text/path_text.h"
#include "base/text/seal.h"
#include "checkpoint/trainer_state.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// To raise if older programs would misread a manifest. A key that older manifests lack is optional in
// parse(), or their checkpoints would no longer open.
constexpr u64 version = 1;
constexpr u64 manifest_bytes_max = 1 * mib;
constexpr std::string_view format_line = R"("format": "tidepool checkpoint")";

std::optional<u64> parse_count(const json::value* v) {
  if (v == nullptr || !v->is_int64() || v->get_int64() < 0) return std::nullopt;
  return static_cast<u64>(v->get_int64());
}

std::optional<Manifest> parse(const json::value& root) {
  if (!root.is_object()) return std::nullopt;
  const json::object& o = root.get_object();
  const auto step = parse_count(o.if_contains("step"));
  const auto weights = parse_hash(o.if_contains("weights_xxh3"));
  auto files = parse_file_list(o.if_contains("files"));
  if (parse_count(o.if_contains("version")) != version || !step || !weights || !files) return std::nullopt;
  Manifest out{.step = *step, .weights_xxh3 = *weights, .files = *std::move(files)};
  if (const json::value* origin = o.if_contains(origin_key)) {
    out.origin = parse_origin(*origin);
    if (!out.origin) return std::nullopt;
  }
  return out;
}

}  // namespace

std::string to_text(const Manifest& m) {
  std::string text = fmt::format("{{\n  {},\n", format_line);
  text += fmt::format("  \"version\": {},\n  \"step\": {},\n", version, m.step);
  text += fmt::format("  \"weights_xxh3\": \"{}\",\n", hash_text(m.weights_xxh3));
  if (m.origin)
    text += fmt::format("  \"{}\": {},\n", origin_key, json_text(origin_json(*m.origin), JsonStyle::line));
  return sealed(text + file_list_text(m.files));
}

bool has_manifest(const std::string& directory) {
  const std::string path = directory + "/" + manifest_file;
  if (!is_named(path)) return false;
  if (is_named(directory + "/" + trainer_state_file)) return true;
  const Result<std::string> text = read_small_file(path, manifest_bytes_max, ErrorKind::corrupt_checkpoint);
  if (!text) return text.error().kind == ErrorKind::io;  // read_manifest() will report the error
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
      fmt::format(
          "{}: is undamaged, but of version {}, and this Tidepool reads version {}: use the Tidepool that "
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
                 fmt::format("{}: is not a manifest of version {}", path, version)};
  }
  return *manifest;
}

Result<void> verify_files(const std::string& directory, const Manifest& manifest,
                          std::span<std::byte> buffer) {
  for (const ListedFile& e : manifest.files) TRY(check_file(directory, e, buffer));
  return {};
}

}  // namespace tidepool
