// Reads a config file as text and checks its encoding, before it is parsed as YAML.
#include "config/read/load_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/read_file.h"
#include "base/text/utf8.h"

namespace tidepool {

namespace {

// Refuses other encodings: YAML would read UTF-16 as an empty map, and the error would complain about a
// missing key.
Result<void> check_is_text(const std::string& path, const std::string& text) {
  Utf8Checker checker;
  std::optional<u64> bad = checker.feed(std::as_bytes(std::span(text)));
  if (!bad) bad = checker.finish();
  const size_t zero = text.find('\0');
  if (!bad && zero == std::string::npos) return {};
  const bool utf16 =
      zero != std::string::npos || text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
  return Error{ErrorKind::usage,
               fmt::format("{}: is not UTF-8 text (byte {}{}); save the file as UTF-8", path,
                           std::min<u64>(bad.value_or(zero), zero), utf16 ? "; it looks like UTF-16" : "")};
}

}  // namespace

Result<Config> load_config(const std::string& path, const std::vector<std::string>& overrides,
                           KeptModel kept) {
  TRY_ASSIGN(const std::string text,
             read_written_file(path, {.what = "the config", .advice = "name a YAML file"}));
  TRY(check_is_text(path, text));
  return parse_config(text, path, overrides, kept);
}

}  // namespace tidepool
