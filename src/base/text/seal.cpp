#include "base/text/seal.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/text/hash.h"

namespace tidepool {
namespace {

constexpr std::string_view seal_begin = "  \"xxh3_of_the_lines_above\": \"";
constexpr std::string_view seal_end = "\"\n}\n", object_end = "\n}\n";
constexpr std::size_t hash_digits = 16;

constexpr std::string_view comment_begin = "# xxh3 of the lines above: ";

}  // namespace

std::string sealed_by_comment(std::string text) {
  const u64 hash = hash_of(text);
  return text += fmt::format("{}{}\n", comment_begin, hash_text(hash));
}

bool comment_is_broken(std::string_view text) {
  return text.find(comment_begin) != text.npos && !comment_holds(text);
}

bool comment_holds(std::string_view text) {
  const std::size_t at = text.rfind(comment_begin);
  return at != text.npos && sealed_by_comment(std::string(text.substr(0, at))) == text;
}

std::string sealed(std::string lines) {
  const u64 hash = hash_of(lines);
  return lines += fmt::format("{}{}{}", seal_begin, hash_text(hash), seal_end);
}

std::string sealed_object(std::string object) {
  CHECK(object.ends_with(object_end), object);
  object.resize(object.size() - object_end.size());
  return sealed(std::move(object) + ",\n");
}

bool seal_holds(std::string_view text) {
  constexpr std::size_t tail = seal_begin.size() + hash_digits + seal_end.size();
  return text.size() > tail && sealed(std::string(text.substr(0, text.size() - tail))) == text;
}

}  // namespace tidepool
