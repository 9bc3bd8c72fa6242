// Differences between Oniguruma and PCRE2, and how they are translated:
//   \s         PCRE2 adds U+180E; White_Space is written out
//   \w \d \p   distributions' PCRE2 knows Unicode 14 or 15; newer characters are added to categories
//   \w         outside of a class it also matches U+00B2, U+00B3, U+00B9 and U+00BC to U+00BE
//   \p{Han}    for scripts PCRE2 means Script_Extensions, Oniguruma means Script
//   \p{C}      newer characters are not in it any more; derived properties (Alpha): refused
//   \h \v \e   other characters; written with Ruby's meaning
//   \x80       a byte, not a character: refused
//   ( )        become groups without a capture, since references to captures are refused
//   {,n}       a quantifier in Ruby only; in Ruby {n,m}+ is not possessive and {n}? not lazy: refused
//   [[..]] &&  nested classes and intersections: refused
//   (?i)       full case folding in Ruby (caseless.h); PCRE2 ignores case not for \w and \p: refused
#include "huggingface/tokenizer/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/types.h"
#include "huggingface/tokenizer/caseless.h"
#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/newer_unicode.h"

namespace tidepool {

namespace {

constexpr std::string_view white_space =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view all_but_white_space =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-)"
    R"(\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";

constexpr size_t pattern_bytes_max = 64 * kib;

constexpr std::string_view word_characters_alone = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

constexpr auto categories = std::to_array<std::string_view>(
    {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P",  "Pc", "Pd",
     "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"});

std::string word_characters() {
  std::string out = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
  for (const char* category : {"L", "M", "Nd", "Nl", "Pc"}) out += newer_characters(category);
  return out;
}

bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

class Translator {
 public:
  explicit Translator(std::string_view source) : source_(source) {}

  Result<Pattern> run() {
    if (source_.size() > pattern_bytes_max)
      return reason(fmt::format("a pattern of more than {} bytes", pattern_bytes_max));
    while (at_ < source_.size()) TRY(piece());
    return std::move(out_);
  }

 private:
  static Error reason(std::string_view what) {
    return {ErrorKind::bad_input, fmt::format("{} is not supported", what)};
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool skip(std::string_view text) {
    if (!source_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  void emit(std::string_view text) { out_.text += text; }

  // RETURNS: the next character, and moves behind it.
  Result<char32_t> next_character() {
    const size_t bytes = character_bytes(source_[at_]);
    if (at_ + bytes > source_.size()) return reason("text that is not UTF-8");
    const char32_t character = character_at(source_, at_);
    at_ += bytes;
    return character;
  }

  Result<void> piece() {
    const size_t begin = at_;
    switch (peek()) {
      case '\\':
        ++at_;
        return escape();
      case '[':
        ++at_;
        caseless_.other();
        return character_class();
      case '(':
        ++at_;
        return group();
      case ')':
        ++at_;
        caseless_.close();
        break;
      case '{':
        return repeat();
      case '^':
        out_.looks_behind = true;
        [[fallthrough]];
      case '$':
      case '.':
      case '|':
      case '*':
      case '+':
      case '?':
        ++at_;
        caseless_.other();
        break;
      default: {
        TRY_ASSIGN(const char32_t character, next_character());
        TRY(literal(character));
      }
    }
    emit(source_.substr(begin, at_ - begin));
    return {};
  }

  Result<void> literal(char32_t character) {
    if (const Result<void> fine = caseless_.literal(character); !fine) return reason(fine.error().message);
    return {};
  }

  // A set of characters that an escape names, as the inside of a class. `negated` for \S and the like.
  struct Set {
    std::string inside;
    bool negated = false;
  };

  Result<Set> property(bool negated) {
    const size_t end = source_.find('}', at_);
    if (peek() != '{' || end == std::string_view::npos) return reason("\\p without {...}");
    std::string_view name = source_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (std::ranges::find(categories, name) != categories.end())
      return Set{fmt::format("\\p{{{}}}", name) + newer_characters(name), negated};
    // Refuses short names: C and Cn, which newer characters no longer belong to, and other spellings of
    // categories.
    if (name.size() < 3 || name == "Unknown" || name == "Zzzz" ||
        !std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '_'; }))
      return reason(fmt::format("\\p{{{}}}", name));
    return Set{fmt::format("\\p{{sc:{}}}", name), negated};  // PCRE2 refuses a name that is not a script
  }

  // Reads an escape behind its backslash.
  // RETURNS: none if the escape is a single character or an assertion.
  Result<std::optional<Set>> set() {
    const char c = peek();
    switch (c) {
      case 's':
      case 'S':
        ++at_;
        return std::optional(Set{std::string(white_space), c == 'S'});
      case 'd':
      case 'D':
        ++at_;
        return std::optional(Set{"\\p{Nd}" + newer_characters("Nd"), c == 'D'});
      case 'w':
      case 'W':
        ++at_;
        if (caseless_.here()) return reason(fmt::format("\\{} under (?i)", c));
        return std::optional(Set{word_characters(), c == 'W'});
      case 'h':
      case 'H':
        ++at_;
        return std::optional(Set{"0-9a-fA-F", c == 'H'});
      case 'p':
      case 'P': {
        ++at_;
        if (caseless_.here()) return reason(fmt::format("\\{} under (?i)", c));
        TRY_ASSIGN(Set found, property(c == 'P'));
        return std::optional(std::move(found));
      }
      default:
        return std::optional<Set>();
    }
  }

  // Reads \n, \., \x41, \x{1f600} or \u3000: one character, with the same meaning inside and outside of a
  // class.
  Result<char32_t> escaped_character() {
    if (at_ >= source_.size()) return reason("a backslash at the end");
    TRY_ASSIGN(const char32_t c, next_character());
    switch (c) {
      case 'n':
        return numbered('\n');
      case 't':
        return numbered('\t');
      case 'r':
        return numbered('\r');
      case 'f':
        return numbered('\f');
      case 'a':
        return numbered('\a');
      case 'e':
        return numbered(0x1b);
      case 'v':
        return numbered('\v');
      case 'x':
        return hexadecimal(peek() == '{' ? 8 : 2);
      case 'u':
        return hexadecimal(4);
      default:
        break;
    }
    if (c < 0x80 && is_letter_or_digit(static_cast<char>(c)))
      return reason(fmt::format("\\{}", static_cast<char>(c)));
    return numbered(c);
  }

  char32_t numbered(char32_t character) {
    emit(fmt::format("\\x{{{:x}}}", static_cast<u32>(character)));
    return character;
  }

  Result<char32_t> hexadecimal(size_t digits_max) {
    const bool braces = digits_max == 8 && skip("{");
    std::string digits;
    while (digits.size() < digits_max && is_hex(peek())) digits += source_[at_++];
    if (digits.empty() || (digits_max == 4 && digits.size() != 4) || (braces && !skip("}")))
      return reason("this way to write a character by its number");
    const u64 number = std::stoul(digits, nullptr, 16);  // eight digits at most
    if (digits_max == 2 && number >= 0x80)
      return reason(fmt::format("\\x{}, which is a byte of a character to Ruby,", digits));
    if (number > 0x10ffff || (number >= 0xd800 && number <= 0xdfff))
      return reason(fmt::format("\\x{{{}}}, which is no character,", digits));
    return numbered(static_cast<char32_t>(number));
  }

  Result<void> escape() {
    const bool word = peek() == 'w' || peek() == 'W';
    TRY_ASSIGN(const std::optional<Set> found, set());
    if (found) {
      caseless_.other();
      emit(found->negated ? "[^" : "[");
      emit(found->inside);
      if (word) emit(word_characters_alone);
      emit("]");
      return {};
    }
    if (peek() == 'A' || peek() == 'z') {  // same meaning in both
      out_.looks_behind = true;
      caseless_.other();
      emit("\\");
      emit(source_.substr(at_++, 1));
      return {};
    }
    TRY_ASSIGN(const char32_t character, escaped_character());
    return literal(character);
  }

  Result<void> character_class() {
    emit("[");
    const bool negated = skip("^");
    if (negated) emit("^");
    for (bool first = true; first || peek() != ']'; first = false) TRY(class_part(negated));
    ++at_;
    emit("]");
    return {};
  }

  // Reads a set, a character, or a range of characters.
  Result<void> class_part(bool negated) {
    TRY_ASSIGN(const std::optional<char32_t> first, in_class());
    std::optional<char32_t> last = first;
    if (peek() == '-' && peek(1) != ']') {
      if (!first) return reason("a - behind a set");
      emit(source_.substr(at_++, 1));
      TRY_ASSIGN(last, in_class());
      if (!last) return reason("a range that ends in a set");
    }
    if (!first) return {};
    if (const Result<void> fine = caseless_.member(*first, *last, negated); !fine)
      return reason(fine.error().message);
    return {};
  }

  // Reads one item of a class.
  // RETURNS: a character; none if it was a set of characters.
  Result<std::optional<char32_t>> in_class() {
    if (at_ >= source_.size()) return reason("a [ without its ]");
    if (peek() == '[') return reason("a class within a class");
    if (source_.substr(at_).starts_with("&&")) return reason("&& in a class");
    if (skip("\\")) return escape_in_class();
    const size_t begin = at_;
    TRY_ASSIGN(const char32_t character, next_character());
    if (character == ']' || character == '-') emit("\\");
    emit(source_.substr(begin, at_ - begin));
    return std::optional(character);
  }

  Result<std::optional<char32_t>> escape_in_class() {
    const char c = peek();
    TRY_ASSIGN(const std::optional<Set> found, set());
    if (!found) {
      if (skip("b")) return std::optional(numbered('\b'));
      TRY_ASSIGN(const char32_t character, escaped_character());
      return std::optional(character);
    }
    if (found->negated && (c != 'S' || caseless_.here()))
      return reason(fmt::format("\\{} in a class{}", c, caseless_.here() ? " under (?i)" : ""));
    emit(found->negated ? all_but_white_space : std::string_view(found->inside));
    return std::optional<char32_t>();
  }

  Result<void> group() {
    // In Ruby an option in the middle also applies to the later branches of an alternation.
    if (at_ == 1 && skip("?i)")) {
      caseless_.begin();
      emit("(?i)");
      return {};
    }
    for (const std::string_view head : {"?:", "?=", "?!", "?>", "?i:", "?-i:"}) {
      if (skip(head)) {
        caseless_.open(head.ends_with("i:") ? std::optional(head == "?i:") : std::nullopt);
        emit("(");
        emit(head);
        return {};
      }
    }
    for (const std::string_view head : {"?<=", "?<!"}) {
      if (skip(head)) {
        out_.looks_behind = true;
        caseless_.open(std::nullopt);
        emit("(");
        emit(head);
        return {};
      }
    }
    if (peek() == '?' || peek() == '*') {
      const size_t end = source_.find_first_of(":)=!>", at_);
      return reason(
          fmt::format("({}", source_.substr(at_, end == std::string_view::npos ? end : end - at_ + 1)));
    }
    caseless_.open(std::nullopt);
    emit("(?:");
    return {};
  }

  std::string digits() {
    std::string out;
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) out += source_[at_++];
    return out;
  }

  // Reads {n}, {n,}, {,m} or {n,m}; anything else is a literal brace.
  Result<void> repeat() {
    const size_t begin = at_++;
    const std::string least = digits();
    const bool comma = skip(",");
    const std::string most = comma ? digits() : least;
    if ((least.empty() && most.empty()) || !skip("}")) {
      at_ = begin + 1;
      emit("\\{");
      return literal('{');
    }
    if (least.size() > 5 || most.size() > 5) return reason("a repetition this large");
    if (peek() == '+' || peek() == '*' || peek() == '{') return reason("a quantifier of a quantifier");
    if (peek() == '?' && !comma) return reason("{n}?");
    emit(comma ? fmt::format("{{{},{}}}", least.empty() ? "0" : least, most) : fmt::format("{{{}}}", least));
    if (skip("?")) emit("?");
    const auto is_once = [](const std::string& times) { return !times.empty() && std::stoul(times) == 1; };
    if (!is_once(least) || !is_once(most)) caseless_.other();  // Oniguruma drops {1}
    return {};
  }

  std::string_view source_;
  size_t at_ = 0;
  Caseless caseless_;
  Pattern out_;
};

}  // namespace

Result<Pattern> translate_pattern(std::string_view oniguruma) { return Translator(oniguruma).run(); }

}  // namespace tidepool
