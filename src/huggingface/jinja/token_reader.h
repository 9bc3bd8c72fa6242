// TokenReader is a cursor over tokens. It makes the errors that the parsers of expressions and statements
// report.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "huggingface/jinja/lexer.h"

namespace tidepool::jinja {

class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }

  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_symbol(std::string_view text) const { return is(TokenKind::symbol) && now().text == text; }
  bool is_name(std::string_view text) const { return is(TokenKind::name) && now().text == text; }
  bool take_symbol(std::string_view text) { return is_symbol(text) && (take(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (take(), true); }

  Result<void> expect_symbol(std::string_view text) {
    if (take_symbol(text)) return {};
    return unexpected(fmt::format("'{}'", text));
  }
  Result<void> expect_name(std::string_view text) {
    if (take_name(text)) return {};
    return unexpected(fmt::format("'{}'", text));
  }
  Result<std::string> expect_any_name(std::string_view what) {
    if (!is(TokenKind::name)) return unexpected(what);
    return take().text;
  }
  Result<void> expect_block_end() {
    if (!is(TokenKind::block_end)) return unexpected("the end of the tag");
    take();
    return {};
  }

  Error fault(std::string_view reason) const { return fault_in(now().line, reason); }
  static Error fault_in(u32 line, std::string_view reason) {
    return {ErrorKind::bad_input, fmt::format("{}: {}", line, reason)};
  }
  Error unexpected(std::string_view wanted) const {
    return fault(fmt::format("{} instead of {}", describe(), wanted));
  }

 private:
  std::string describe() const {
    switch (now().kind) {
      case TokenKind::text:
        return "text";
      case TokenKind::print_begin:
        return "'{{'";
      case TokenKind::print_end:
        return "'}}'";
      case TokenKind::block_begin:
        return "'{%'";
      case TokenKind::block_end:
        return "'%}'";
      case TokenKind::text_literal:
        return "a quoted text";
      case TokenKind::end:
        return "the end of the template";
      default:
        return fmt::format("'{}'", now().text);
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace tidepool::jinja
