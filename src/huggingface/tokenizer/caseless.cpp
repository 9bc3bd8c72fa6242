#include "huggingface/tokenizer/caseless.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/types.h"
#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/newer_unicode.h"

namespace tidepool {

namespace {

std::u32string fold(char32_t character) {
  std::array<i32, 8> parts;  // Unicode's longest has 3
  int unused = 0;
  const auto count =
      utf8proc_decompose_char(static_cast<i32>(character), parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_CASEFOLD, &unused);
  if (count < 0) return {character};  // not a character of Unicode
  CHECK(count <= static_cast<utf8proc_ssize_t>(parts.size()), count);
  return {parts.begin(), parts.begin() + count};
}

// A character whose case folding has two or three characters.
struct Several {
  char32_t character;
  std::u32string folded;
};

// In ascending order of characters.
const std::vector<Several>& all_that_fold_into_several() {
  static const std::vector<Several> found = [] {
    constexpr char32_t last_of_the_basic_plane = 0xffff;  // no such character lies beyond it
    std::vector<Several> out;
    for (char32_t c = 0x80; c <= last_of_the_basic_plane; ++c) {
      std::u32string folded = fold(c);
      if (folded.size() > 1) out.push_back({c, std::move(folded)});
    }
    return out;
  }();
  return found;
}

const Several* find_in(char32_t first, char32_t last) {
  const auto& all = all_that_fold_into_several();
  const auto found = std::ranges::lower_bound(all, first, {}, &Several::character);
  return found != all.end() && found->character <= last ? &*found : nullptr;
}

const Several* find_at_the_end(std::u32string_view row) {
  const auto& all = all_that_fold_into_several();
  const auto found = std::ranges::find_if(all, [&](const Several& s) { return row.ends_with(s.folded); });
  return found != all.end() ? &*found : nullptr;
}

Error matches_too(std::u32string_view what, std::u32string_view other) {
  const auto utf8 = [](std::u32string_view characters) {
    std::string out;
    for (const char32_t character : characters) append_character(out, character);
    return out;
  };
  return {ErrorKind::bad_input,
          fmt::format("'{}' under (?i), where '{}' would match too,", utf8(what), utf8(other))};
}

// The installed PCRE2 may not know the character's other case.
Error newer_character(char32_t character) {
  return {ErrorKind::bad_input,
          fmt::format("U+{:04X}, which is newer than Unicode 14, under (?i)", static_cast<u32>(character))};
}

}  // namespace

void Caseless::open(std::optional<bool> caseless) {
  around_.push_back(here_);
  here_ = caseless.value_or(here_);
}

void Caseless::close() {
  if (around_.empty()) return;  // PCRE2 will refuse a ) without its (
  here_ = around_.back();
  around_.pop_back();
}

Result<void> Caseless::literal(char32_t character) {
  if (!here_) {
    other();
    return {};
  }
  TRY(member(character, character, false));
  row_ += fold(character);
  if (const Several* found = find_at_the_end(row_)) return matches_too(found->folded, {&found->character, 1});
  return {};
}

Result<void> Caseless::member(char32_t first, char32_t last, bool negated) const {
  if (!here_) return {};
  if (const std::optional<u32> found = find_newer(first, last)) return newer_character(*found);
  if (negated) return {};
  if (const Several* found = find_in(first, last)) return matches_too({&found->character, 1}, found->folded);
  return {};
}

}  // namespace tidepool
