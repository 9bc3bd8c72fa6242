#include "data/records/explain_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text/utf8.h"

namespace tidepool {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

u32 hex4(std::string_view digits) {
  u32 out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  return digits.size() == 4 && error == std::errc() && end == digits.data() + 4 ? out : 0;
}

// Finds "\\ud83d" without its other half, as written by programs that cut text between the two; empty: none.
std::string_view lone_surrogate(std::string_view line) {
  for (size_t at = line.find('\\'); at != line.npos; at = line.find('\\', at)) {
    const std::string_view escape = line.substr(at, 6);
    const u32 unit = escape.starts_with("\\u") ? hex4(escape.substr(2)) : 0;
    if (unit >= 0xdc00 && unit < 0xe000) return escape;
    if (unit >= 0xd800 && unit < 0xdc00) {
      const std::string_view next = line.substr(std::min(at + 6, line.size()), 6);
      const u32 other = next.starts_with("\\u") ? hex4(next.substr(2)) : 0;
      if (other < 0xdc00 || other >= 0xe000) return escape;
      at += 6;
    }
    at += unit != 0 ? 6 : 2;
  }
  return {};
}

// Describes the encoding error of a line; empty: the line is UTF-8.
std::string wrong_encoding(std::string_view line) {
  Utf8Checker checker;
  std::optional<u64> at = checker.feed(std::as_bytes(std::span(line)));
  at = at ? checker.character(*at) : checker.finish();
  if (!at) return {};
  return fmt::format(
      "is not UTF-8 at byte {} of the line (0x{:02x}), perhaps Latin-1; convert the file, for example with  "
      "iconv -f LATIN1 -t UTF-8 FILE > OUT",
      *at, static_cast<u8>(line[*at]));
}

// Structure of a line: the parts of it that are not in quotes.
struct Structure {
  std::string outside;  // the line, with 'a' for each byte of a quoted text
  bool open_quote = false;
  i64 depth = 0;  // brackets that were opened and not closed
};

Structure structure_of(std::string_view line) {
  Structure out;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (out.open_quote && c == '\\') {
      out.outside += "aa";
      ++i;
      continue;
    }
    if (c == '"') out.open_quote = !out.open_quote;
    out.outside += out.open_quote ? 'a' : c;
    if (!out.open_quote) out.depth += (c == '{' || c == '[') - (c == '}' || c == ']');
  }
  return out;
}

// RETURNS: a number that Python writes and JSON does not have; empty: none.
std::string_view no_number(const Structure& line) {
  for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
    const size_t at = line.outside.find(word);
    if (at == line.outside.npos) continue;
    const size_t before = at == 0 ? at : line.outside.find_last_not_of(" \t", at - 1);
    if (before != line.outside.npos &&
        std::string_view(":[,").find(line.outside[before]) != std::string_view::npos)
      return word;
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r");
  return end == text.npos ? std::string_view() : text.substr(0, end + 1);
}

}  // namespace

Error explain_line(const Error& error, std::string_view line, const std::string& place) {
  const auto explained = [&](std::string_view text) {
    return Error{ErrorKind::bad_input, fmt::format("{}: {}", place, text)};
  };
  if (line.find('\0') != line.npos)
    return explained("has a zero byte, so it is no text; is it a binary file, or was it damaged?");
  if (const std::string encoding = wrong_encoding(line); !encoding.empty()) return explained(encoding);
  const Structure structure = structure_of(line);
  if (const size_t mark = structure.outside.find(byte_order_mark); mark != line.npos)
    return explained(fmt::format(
        "has a byte order mark (U+FEFF) at byte {} of the line, as files have at their begin that "
        "were joined; remove it, for example with  sed 's/\\xEF\\xBB\\xBF//g' FILE > OUT",
        mark));
  if (const std::string_view word = no_number(structure); !word.empty())
    return explained(fmt::format(
        "{} is no JSON, although Python writes it; write null in its place, or leave the record out", word));
  if (const std::string_view lone = lone_surrogate(line); !lone.empty())
    return {ErrorKind::bad_input, fmt::format("{}: {} is half of a character without its other half; write "
                                              "the file again without it, or with \\ufffd in its place",
                                              error.message, lone)};
  const size_t begin = line.find_first_not_of(" \t");
  if (structure.depth > 0 && !structure.open_quote && line[begin] == '[')
    return explained(
        "the file is one JSON list over several lines; convert it to lines of objects with  jq -c '.[]'");
  if (structure.depth > 0 && !structure.open_quote && line[begin] == '{') {
    const char last = trimmed(line).back();
    if (std::string_view("{[,:").find(last) != std::string_view::npos)
      return explained(
          "the object does not end on this line; every line must be a whole object: convert JSON over "
          "several lines with  jq -c . FILE > OUT");
    return {ErrorKind::bad_input,
            fmt::format("{}: the object does not end on this line; was the line cut off? Convert JSON over "
                        "several lines with  jq -c . FILE > OUT",
                        error.message)};
  }
  return error;
}

}  // namespace tidepool
