// Lexer walks the source once, and keeps line numbers for messages.
#include "huggingface/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_begin(u32 c) { return (c | 0x20) - 'a' < 26 || c == '_' || (c >= 0x80 && is_letter(c)); }
bool is_name(u32 c) { return is_name_begin(c) || c - '0' < 10 || (c >= 0x80 && is_decimal(c)); }

constexpr std::array<std::string_view, 25> symbols = {"//", "**", "==", "!=", "<=", ">=", "(", ")", "[",
                                                      "]",  "{",  "}",  ",",  ":",  ".",  "|", "~", "=",
                                                      "+",  "-",  "*",  "/",  "%",  "<",  ">"};

// Source with \n as line ends, and without the last line end, as Jinja does.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (u64 i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TRY(text_and_tag());
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  Error fault(std::string_view reason) const { return fault_in(line_, reason); }
  static Error fault_in(u32 line, std::string_view reason) {
    return {ErrorKind::bad_input, fmt::format("{}: {}", line, reason)};
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(u64 bytes) {
    line_ += static_cast<u32>(std::ranges::count(rest().substr(0, bytes), '\n'));
    at_ += bytes;
  }

  u64 next_tag() const {
    u64 tag = source_.find('{', at_);
    while (tag != source_.npos && (tag + 1 == source_.size() ||
                                   std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos))
      tag = source_.find('{', tag + 1);
    return tag;
  }

  // Reads text up to the next tag, strips what the tag takes of it, then reads the tag.
  Result<void> text_and_tag() {
    const u64 tag = next_tag();
    std::string_view text = rest().substr(0, tag == source_.npos ? source_.npos : tag - at_);
    if (tag == source_.npos) {
      if (!text.empty()) add(TokenKind::text, std::string(text));
      advance(text.size());
      return {};
    }
    const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const std::optional<RawTag> raw = kind == '%' ? raw_tag(tag, "raw") : std::nullopt;
    const std::string_view kept = before_tag(text, kind, sign);
    if (!kept.empty()) add(TokenKind::text, std::string(kept));
    if (raw) {
      advance(text.size());
      return raw_text(*raw);
    }
    advance(text.size() + 2 + (sign == '-' || sign == '+'));
    if (kind == '#') return comment();
    add(kind == '{' ? TokenKind::print_begin : TokenKind::block_begin, "");
    return inside(kind == '{' ? "}}" : "%}");
  }

  // The tag {% raw %} or {% endraw %}.
  struct RawTag {
    u64 bytes = 0;
    char sign = '\0', end_sign = '\0';
  };
  std::optional<RawTag> raw_tag(u64 at, std::string_view name) const {
    std::string_view text = std::string_view(source_).substr(at);
    const u64 whole = text.size();
    const auto take_sign = [&] {
      const char c = text.empty() ? '\0' : text[0];
      if (c != '-' && c != '+') return '\0';
      text.remove_prefix(1);
      return c;
    };
    if (!text.starts_with("{%")) return std::nullopt;
    text.remove_prefix(2);
    RawTag out{.sign = take_sign()};
    text = strip(text, Sides{.end = false});
    if (!text.starts_with(name)) return std::nullopt;
    text = strip(text.substr(name.size()), Sides{.end = false});
    if (name == "endraw" || text.starts_with('-')) out.end_sign = take_sign();
    if (!text.starts_with("%}")) return std::nullopt;
    out.bytes = whole - text.size() + 2;
    return out;
  }

  // Reads the text of a raw block: nothing in it is a tag.
  Result<void> raw_text(const RawTag& begin) {
    const u32 line = line_;
    advance(begin.bytes);
    if (begin.end_sign == '-') advance(rest().size() - strip(rest(), Sides{.end = false}).size());
    line_begins_ = at_ > 0 && source_[at_ - 1] == '\n';
    for (u64 tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const std::optional<RawTag> end = raw_tag(tag, "endraw");
      if (!end) continue;
      const std::string_view text = rest().substr(0, tag - at_), kept = before_tag(text, '%', end->sign);
      if (!kept.empty()) add(TokenKind::text, std::string(kept));
      advance(text.size() + end->bytes - 2);
      close_tag(2, end->end_sign == '-', end->end_sign == '\0');
      return {};
    }
    return fault_in(line, "a block {% raw %} is never closed with {% endraw %}");
  }

  // Strips the text before a tag. A block tag that is alone on its line also removes the line's indentation.
  std::string_view before_tag(std::string_view text, char kind, char sign) const {
    if (sign == '-') return strip(text, Sides{.begin = false});
    if (sign == '+' || kind == '{') return text;
    const u64 line = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line == 0 && !line_begins_) return text;
    return strip(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  void close_tag(u64 bytes, bool strips, bool trims_line) {
    const u64 begin = at_;
    advance(bytes);
    if (strips) {
      advance(rest().size() - strip(rest(), Sides{.end = false}).size());
    } else if (trims_line && rest().starts_with('\n')) {
      advance(1);
    }
    line_begins_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  Result<void> comment() {
    const u32 line = line_;
    const u64 end = source_.find("#}", at_);
    if (end == source_.npos) return fault_in(line, "a comment {# is never closed");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end - at_);
    close_tag(2, sign == '-', sign != '+');
    return {};
  }

  // Reads tokens up to `end`. `end` does not count inside brackets.
  Result<void> inside(std::string_view end) {
    const u32 line = line_;
    std::string open;
    while (true) {
      while (!rest().empty() && is_space(static_cast<u8>(rest()[0])) && static_cast<u8>(rest()[0]) < 0x80)
        advance(1);
      if (rest().empty()) return fault_in(line, fmt::format("a tag is never closed with {}", end));
      const char sign = rest()[0];
      const bool signed_end =
          (sign == '-' || (sign == '+' && end == "%}")) && rest().substr(1).starts_with(end);
      if (open.empty() && (signed_end || rest().starts_with(end))) {
        add(end == "}}" ? TokenKind::print_end : TokenKind::block_end, "");
        close_tag(signed_end ? 3 : 2, sign == '-', end == "%}" && !signed_end);
        return {};
      }
      TRY(token(open));
    }
  }

  Result<void> token(std::string& open) {
    const char c = rest()[0];
    u32 bytes = 1;
    if (is_name_begin(character(0, &bytes))) return name();
    if (is_ascii_digit(c)) return number();
    if (c == '\'' || c == '"') return literal(c);
    const auto found =
        std::ranges::find_if(symbols, [&](std::string_view s) { return rest().starts_with(s); });
    if (found == symbols.end())
      return fault(
          fmt::format("'{}' has no meaning in a tag", c < 0x20 || c == 0x7f || (c & 0x80) ? '?' : c));
    if (*found == "(" || *found == "[" || *found == "{") open += c;
    if (*found == ")" || *found == "]" || *found == "}") {
      const char opener = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || open.back() != opener) return fault(fmt::format("'{}' closes nothing", c));
      open.pop_back();
    }
    add(TokenKind::symbol, std::string(*found));
    advance(found->size());
    return {};
  }

  // The character at `at` of the rest, and its length.
  u32 character(u64 at, u32* bytes) const { return code_point_at(rest(), at, bytes); }
  bool is_name_at(u64 at) const {
    u32 bytes = 1;
    return at < rest().size() && is_name(character(at, &bytes));
  }

  Result<void> name() {
    u64 size = 0;
    u32 bytes = 1;
    while (size < rest().size() && is_name(character(size, &bytes))) size += bytes;
    add(TokenKind::name, std::string(rest().substr(0, size)));
    advance(size);
    return {};
  }

  // Length of digits from `at` on, which may have single underscores between them; 0: no digit.
  template <class F>
  u64 digits(u64 at, F&& is_digit) const {
    u64 size = 0;
    while (at + size < rest().size()) {
      const bool underscore = size > 0 && rest()[at + size] == '_' && at + size + 1 < rest().size();
      if (is_digit(rest()[at + size])) {
        ++size;
      } else if (underscore && is_digit(rest()[at + size + 1])) {
        size += 2;
      } else {
        break;
      }
    }
    return size;
  }

  // Reads 12, 1_000, 0x1f, 0o17, 0b11, 1.5, 1e5, 1.5e-3.
  Result<void> number() {
    // In `a.0.b` the 0 is an index: digits behind a point never become a real number.
    const bool item =
        !tokens_.empty() && tokens_.back().text == "." && tokens_.back().kind == TokenKind::symbol;
    u64 size = digits(0, is_ascii_digit);
    bool real = false, based = false;
    const char letter = rest().size() > 1 ? static_cast<char>(rest()[1] | 0x20) : '\0';
    if (rest()[0] == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
      const u64 more = digits(2, [&](char c) {
        return letter == 'x'   ? is_ascii_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
               : letter == 'o' ? c >= '0' && c <= '7'
                               : c == '0' || c == '1';
      });
      based = more > 0;
      if (based) size = 2 + more;
    }
    if (!item && !based) {
      const u64 behind_point =
          size < rest().size() && rest()[size] == '.' ? digits(size + 1, is_ascii_digit) : 0;
      u64 end = size + (behind_point > 0 ? 1 + behind_point : 0);
      if (end < rest().size() && (rest()[end] | 0x20) == 'e') {
        const u64 sign =
            end + 1 < rest().size() && (rest()[end + 1] == '+' || rest()[end + 1] == '-') ? 1 : 0;
        const u64 exponent = digits(end + 1 + sign, is_ascii_digit);
        if (exponent > 0) end += 1 + sign + exponent;
      }
      real = end > size;
      size = end;
    }
    if (is_name_at(size))
      return fault(
          fmt::format("'{}' is a number outside of what is supported: digits, a point with digits, an "
                      "exponent",
                      rest().substr(0, size + 1)));
    std::string text(rest().substr(0, size));
    std::erase(text, '_');
    if (!real && !based && text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != text.npos)
      return fault(fmt::format("'{}' begins with 0", text));
    add(real ? TokenKind::real : TokenKind::integer, text);
    advance(size);
    return {};
  }

  Result<void> literal(char quote) {
    const u32 line = line_;
    std::string text;
    u64 at = 1;
    while (at < rest().size() && rest()[at] != quote) {
      if (rest()[at] != '\\') {
        text += rest()[at++];
        continue;
      }
      TRY_ASSIGN(const u64 bytes, escape(rest().substr(at), text));
      at += bytes;
    }
    if (at >= rest().size())
      return fault_in(line, fmt::format("a text that begins with {} is never closed", quote));
    add(TokenKind::text_literal, std::move(text));
    advance(at + 1);
    return {};
  }

  // Decodes the escape at the front of `from`. Escapes unknown to Python stay unchanged.
  // RETURNS: its length in bytes.
  Result<u64> escape(std::string_view from, std::string& out) const {
    if (from.size() < 2) return fault("a text ends in a backslash");
    constexpr std::string_view letters = "ntrbfav\\'\"", meanings = "\n\t\r\b\f\a\v\\'\"";
    const char c = from[1];
    if (const u64 at = letters.find(c); at != letters.npos) {
      out += meanings[at];
      return 2;
    }
    if (c == '\n') return 2;
    const u64 digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      const std::string_view hex = from.substr(2, digits);
      u32 code = 0;
      const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      if (hex.size() < digits || error != std::errc() || end != hex.data() + digits || code > 0x10ffff ||
          (code >= 0xd800 && code < 0xe000))
        return fault(fmt::format("\\{} in a text must be followed by {} hexadecimal digits of a character", c,
                                 digits));
      append_code_point(out, code);
      return 2 + digits;
    }
    if (c >= '0' && c <= '7') {
      u64 size = 1;
      while (size < 4 && size < from.size() && from[size] >= '0' && from[size] <= '7') ++size;
      u32 code = 0;
      std::from_chars(from.data() + 1, from.data() + size, code, 8);
      append_code_point(out, code);
      return size;
    }
    if (c == 'N')
      return fault(fmt::format("the escape \\{} in a text is not supported; write \\u and four digits", c));
    out += '\\';
    return 1;
  }

  const std::string source_;
  u64 at_ = 0;
  u32 line_ = 1;
  bool line_begins_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize_template(std::string_view source) {
  return Lexer(normalized(source)).run();
}

}  // namespace tidepool::jinja
