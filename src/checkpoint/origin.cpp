#include "checkpoint/origin.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/text/path_text.h"
#include "base/text/utf8.h"
#include "checkpoint/manifest.h"
#include "huggingface/directory/hf_wrapper.h"
#include "huggingface/weights/weights_fingerprint.h"

namespace tidepool {
namespace json = boost::json;

Result<std::optional<Origin>> origin_of(const std::string& directory, std::span<const std::string> unused) {
  if (has_manifest(directory)) {
    TRY_ASSIGN(const Manifest manifest, read_manifest(directory));
    if (manifest.origin) return manifest.origin;
  }
  // JSON cannot hold such a path.
  if (!check_is_utf8("", absolute_path(directory), ErrorKind::bad_input)) return std::optional<Origin>();
  if (unused.empty() && wrapper_of_directory(directory) == nullptr) return std::optional<Origin>();
  TRY_ASSIGN(std::string fingerprint, weights_fingerprint(directory));
  return std::optional(Origin{.directory = absolute_path(directory), .fingerprint = std::move(fingerprint)});
}

Result<void> check_origin(const Origin& origin, const std::string& directory) {
  TRY_ASSIGN(const std::string now, weights_fingerprint(directory));
  if (now == origin.fingerprint) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("{} is not the model that the run began from: the weights' fingerprint was {} then "
                  "and is {} here; restore that model, name its directory with --base DIR, or write "
                  "the text model alone with --text-only",
                  directory, origin.fingerprint, now)};
}

json::value origin_json(const Origin& origin) {
  return json::object{{"directory", origin.directory}, {"weights_fingerprint", origin.fingerprint}};
}

std::optional<Origin> parse_origin(const json::value& value) {
  if (!value.is_object()) return std::nullopt;
  const json::value *directory = value.get_object().if_contains("directory"),
                    *fingerprint = value.get_object().if_contains("weights_fingerprint");
  if (directory == nullptr || fingerprint == nullptr || !directory->is_string() || !fingerprint->is_string())
    return std::nullopt;
  return Origin{.directory = std::string(std::string_view(directory->get_string())),
                .fingerprint = std::string(std::string_view(fingerprint->get_string()))};
}

}  // namespace tidepool
