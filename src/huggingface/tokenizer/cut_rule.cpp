#include "huggingface/tokenizer/cut_rule.h"

#include <utf8proc.h>

#include <array>

#include "huggingface/tokenizer/characters.h"

namespace tidepool {

const std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

struct Known {
  std::string_view pattern;
  KnownPattern kind;
};

// Each of these is covered by a test that cuts random text at every place that the rule allows.
const std::array known_patterns = std::to_array<Known>({
    {gpt2_pattern, KnownPattern::cutting},
    // Llama 3
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     KnownPattern::cutting},
    // Qwen 2, 2.5 and 3
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     KnownPattern::cutting},
    // Newer Mistral models
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     KnownPattern::cutting},
    {R"(\p{N}{1,3})", KnownPattern::harmless},
    {R"(\p{N})", KnownPattern::harmless},
    {R"(\d)", KnownPattern::harmless},
});

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool may_be_letter(char c) { return is_ascii_letter(c) || static_cast<u8>(c) >= 0x80; }

// True if a letter may end at `end`. The text is not yet checked, so it may be invalid UTF-8.
bool letter_ends_at(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<u8>(text[begin]) & 0xc0) == 0x80) --begin;
  if (begin + character_bytes(text[begin]) != end) return false;
  const u32 character = character_at(text, begin);
  if (character < 0x80) return is_ascii_letter(static_cast<char>(character));
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

}  // namespace

KnownPattern known_pattern(std::string_view pattern) {
  for (const Known& known : known_patterns) {
    if (known.pattern == pattern) return known.kind;
  }
  return KnownPattern::unknown;
}

void CutRule::consider(const AddedToken& token, std::string_view content) {
  constexpr std::string_view low_line = "\u2581";  // a space may have been replaced by this
  for (size_t at = 1; at < content.size(); ++at) {
    const bool space = content[at] == ' ' || content[at] == '\n' || content.substr(at).starts_with(low_line);
    if (space && may_be_letter(content[at - 1])) return forbid();
  }
  const bool end_counts = token.rstrip || (pieces_get_a_front_ && !token.normalized);
  if (end_counts && may_be_letter(content.back())) return forbid();
  if (token.single_word && is_white_space(character_at(content, 0))) forbid();
}

size_t CutRule::last_cut(std::string_view text) const {
  for (size_t at = text.size(); at-- > 1;) {
    if ((text[at] == ' ' && before_space_) || (text[at] == '\n' && before_line_feed_)) {
      if (letter_ends_at(text, at)) return at;
    }
  }
  return 0;
}

}  // namespace tidepool
