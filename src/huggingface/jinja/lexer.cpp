// Lexer walks the source once, and keeps line numbers for messages.
#include "huggingface/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name_begin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_name(char c) { return is_name_begin(c) || is_ascii_digit(c); }

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
    const std::string_view kept = before_tag(text, kind, sign);
    if (!kept.empty()) add(TokenKind::text, std::string(kept));
    advance(text.size() + 2 + (sign == '-' || sign == '+'));
    if (kind == '#') return comment();
    add(kind == '{' ? TokenKind::print_begin : TokenKind::block_begin, "");
    return inside(kind == '{' ? "}}" : "%}");
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
    if (is_name_begin(c)) return name();
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

  Result<void> name() {
    u64 size = 1;
    while (size < rest().size() && is_name(rest()[size])) ++size;
    add(TokenKind::name, std::string(rest().substr(0, size)));
    advance(size);
    return {};
  }

  Result<void> number() {
    u64 size = 1;
    const auto digits = [&] {
      while (size < rest().size() && is_ascii_digit(rest()[size])) ++size;
    };
    digits();
    bool real = false;
    // In `a.0.b` the 0 is an index: digits behind a point never become a real number.
    const bool item =
        !tokens_.empty() && tokens_.back().text == "." && tokens_.back().kind == TokenKind::symbol;
    if (!item && size + 1 < rest().size() && rest()[size] == '.' && is_ascii_digit(rest()[size + 1])) {
      real = true;
      ++size;
      digits();
    }
    if (size < rest().size() && is_name(rest()[size])) {
      return fault(
          fmt::format("'{}' is a number outside of what is supported: digits, and a point with digits",
                      rest().substr(0, size + 1)));
    }
    const std::string text(rest().substr(0, size));
    if (!real && text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != text.npos)
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
    if (is_ascii_digit(c) || c == 'N')
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
