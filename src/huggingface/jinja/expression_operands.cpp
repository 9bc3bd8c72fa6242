// Parses operands: values, and what may follow a value: attributes, subscripts, calls, filters and tests.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/text/nearest.h"
#include "huggingface/jinja/expression_parser.h"
#include "huggingface/jinja/expression_parts.h"
#include "huggingface/jinja/names.h"

namespace tidepool::jinja {

namespace {

std::string unknown(std::string_view what, std::string_view name, std::span<const std::string_view> known) {
  return fmt::format("the {} '{}' is outside of the Jinja that Tidepool supports{}", what, name,
                     did_you_mean(name, known));
}

}  // namespace

Result<ExprPtr> ExpressionParser::number() {
  ExprPtr out = make(ExprKind::constant);
  const Token token = tokens_.take();
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == TokenKind::real) {
    // from_chars leaves the value at 0 if there is no such double; strtod gives infinity, as Python does.
    out->constant = Value(std::strtod(begin, nullptr));
    return out;
  }
  i64 value = 0;
  const char letter = token.text.size() > 2 ? static_cast<char>(token.text[1] | 0x20) : '\0';
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  if (std::from_chars(base == 10 ? begin : begin + 2, end, value, base).ec != std::errc())
    return TokenReader::fault_in(token.line, fmt::format("{} is too large", token.text));
  out->constant = Value(value);
  return out;
}

Result<ExprPtr> ExpressionParser::primary() {
  if (tokens_.is(TokenKind::integer) || tokens_.is(TokenKind::real)) return number();
  if (tokens_.take_symbol("[")) return items(ExprKind::list, "]");
  if (tokens_.is_symbol("{")) return dict();
  if (tokens_.is_symbol("(")) {
    tokens_.take();
    if (tokens_.is_symbol(")")) return items(ExprKind::tuple, ")");
    TRY_ASSIGN(ExprPtr inner, choice(true));
    if (!tokens_.is_symbol(",")) {
      TRY(tokens_.expect_symbol(")"));
      return inner;
    }
    tokens_.take();
    TRY_ASSIGN(ExprPtr out, items(ExprKind::tuple, ")"));
    out->height = std::max(out->height, inner->height + 1);
    out->parts.insert(out->parts.begin(), std::move(inner));
    return out;
  }
  if (tokens_.is(TokenKind::text_literal)) {
    ExprPtr out = make(ExprKind::constant);
    std::string text;
    while (tokens_.is(TokenKind::text_literal)) text += tokens_.take().text;
    out->constant = Value(std::move(text));
    return out;
  }
  if (!tokens_.is(TokenKind::name)) return tokens_.unexpected("a value");
  const std::string name = tokens_.now().text;
  if (knows(std::array<std::string_view, 8>{"if", "else", "and", "or", "in", "is", "for", "recursive"}, name))
    return tokens_.unexpected("a value");
  if (name == "caller") used_.caller = true;
  if (name == "varargs") used_.places = true;
  if (name == "kwargs") used_.names = true;
  ExprPtr out = make(ExprKind::name, name);
  tokens_.take();
  const bool truth = name == "true" || name == "True", untruth = name == "false" || name == "False";
  if (truth || untruth || name == "none" || name == "None") {
    out->kind = ExprKind::constant;
    out->constant = truth || untruth ? Value(truth) : Value(None{});
  }
  return out;
}

Result<ExprPtr> ExpressionParser::items(ExprKind kind, std::string_view end) {
  ExprPtr out = make(kind);
  while (!tokens_.is_symbol(end)) {
    TRY_ASSIGN(ExprPtr item, choice(true));
    add(*out, std::move(item));
    if (!tokens_.take_symbol(",")) break;
  }
  TRY(tokens_.expect_symbol(end));
  return out;
}

Result<ExprPtr> ExpressionParser::dict() {
  ExprPtr out = make(ExprKind::dict);
  tokens_.take();
  while (!tokens_.is_symbol("}")) {
    TRY_ASSIGN(ExprPtr key, choice(true));
    TRY(tokens_.expect_symbol(":"));
    TRY_ASSIGN(ExprPtr value, choice(true));
    add(*out, std::move(key), std::move(value));
    if (!tokens_.take_symbol(",")) break;
  }
  TRY(tokens_.expect_symbol("}"));
  return out;
}

// Parses attributes, subscripts and calls behind a value.
Result<ExprPtr> ExpressionParser::followed(ExprPtr value) {
  while (true) {
    if (value->height > height_max) return too_high();
    if (tokens_.is_symbol(".")) {
      TRY_ASSIGN(value, attribute(std::move(value)));
    } else if (tokens_.is_symbol("[")) {
      TRY_ASSIGN(value, subscript(std::move(value)));
    } else if (tokens_.is_symbol("(")) {
      TRY_ASSIGN(value, call(std::move(value)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::attribute(ExprPtr value) {
  tokens_.take();
  if (tokens_.is(TokenKind::integer)) {
    ExprPtr out = make(ExprKind::item);
    TRY_ASSIGN(ExprPtr at, number());
    add(*out, std::move(value), std::move(at));
    return out;
  }
  if (!tokens_.is(TokenKind::name)) return tokens_.unexpected("the name of an attribute");
  ExprPtr out = make(ExprKind::attribute, tokens_.now().text);
  tokens_.take();
  add(*out, std::move(value));
  return out;
}

Result<ExprPtr> ExpressionParser::subscript(ExprPtr value) {
  ExprPtr out = make(ExprKind::item);
  tokens_.take();
  std::array<ExprPtr, 3> bounds;
  size_t colons = 0;
  while (!tokens_.is_symbol("]")) {
    if (tokens_.take_symbol(":")) {
      if (++colons > 2) return tokens_.fault("a slice has at most two colons");
      continue;
    }
    if (bounds[colons]) return tokens_.unexpected("']'");
    TRY_ASSIGN(bounds[colons], choice(true));
  }
  tokens_.take();
  if (colons == 0 && !bounds[0]) return tokens_.fault("[] needs an index");
  add(*out, std::move(value), std::move(bounds[0]));
  if (colons == 0) return out;
  out->kind = ExprKind::slice;
  add(*out, std::move(bounds[1]), std::move(bounds[2]));
  return out;
}

Result<ExprPtr> ExpressionParser::call(ExprPtr callee) {
  if (callee->kind == ExprKind::name) {
    callee->kind = ExprKind::call;
    if (callee->text == "super" || callee->text == "self")
      return tokens_.fault(
          fmt::format("'{}()' is outside of the Jinja that Tidepool supports", callee->text));
    if (!function_named(callee->text)) called_.push_back({callee->text, callee->line});
  } else if (callee->kind == ExprKind::attribute) {
    callee->kind = ExprKind::method;
    const bool of_loop = callee->parts[0]->kind == ExprKind::name && callee->parts[0]->text == "loop" &&
                         (callee->text == "cycle" || callee->text == "changed");
    if (!of_loop && !knows(method_names(), callee->text))
      return tokens_.fault(unknown("method", callee->text, method_names()));
  } else {
    return tokens_.fault("only functions, macros and methods can be called");
  }
  tokens_.take();
  TRY(arguments(*callee));
  return callee;
}

// Parses arguments, from behind the opening bracket up to and including the closing one.
Result<void> ExpressionParser::arguments(Expr& into) {
  while (!tokens_.is_symbol(")")) {
    if (tokens_.is_symbol("*") || tokens_.is_symbol("**")) {
      ExprPtr& spread = tokens_.is_symbol("*") ? into.spread : into.spread_names;
      if (spread) return tokens_.fault("arguments with * or ** are given twice");
      tokens_.take();
      TRY_ASSIGN(spread, choice(true));
      into.height = std::max(into.height, spread->height + 1);
      if (!tokens_.take_symbol(",")) break;
      continue;
    }
    if (tokens_.is(TokenKind::name) && tokens_.after().kind == TokenKind::symbol &&
        tokens_.after().text == "=") {
      std::string name = tokens_.take().text;
      tokens_.take();
      TRY_ASSIGN(ExprPtr value, choice(true));
      into.height = std::max(into.height, value->height + 1);
      into.keywords.push_back({std::move(name), std::move(value)});
    } else {
      if (!into.keywords.empty() || into.spread || into.spread_names)
        return tokens_.fault("an argument without a name follows an argument with a name");
      TRY_ASSIGN(ExprPtr value, choice(true));
      add(into, std::move(value));
    }
    if (!tokens_.take_symbol(",")) break;
  }
  return tokens_.expect_symbol(")");
}

Result<ExprPtr> ExpressionParser::filtered(ExprPtr value) {
  while (true) {
    if (value->height > height_max) return too_high();
    if (tokens_.take_symbol("|")) {
      TRY_ASSIGN(value, filter(std::move(value)));
    } else if (tokens_.is_name("is")) {
      TRY_ASSIGN(value, test(std::move(value)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::filters_of(std::string_view text) {
  ExprPtr value = make(ExprKind::name, std::string(text));
  TRY_ASSIGN(value, filter(std::move(value)));
  return filtered(std::move(value));
}

Result<ExprPtr> ExpressionParser::call_expression() {
  TRY_ASSIGN(ExprPtr out, primary());
  TRY_ASSIGN(out, followed(std::move(out)));
  if (out->kind != ExprKind::call) return tokens_.fault("{% call %} needs a call of a macro");
  return out;
}

// Parses the name of a filter, and its arguments.
Result<ExprPtr> ExpressionParser::filter(ExprPtr value) {
  if (!tokens_.is(TokenKind::name)) return tokens_.unexpected("the name of a filter");
  ExprPtr out = make(ExprKind::filter, tokens_.now().text);
  if (!knows(filter_names(), out->text)) return tokens_.fault(unknown("filter", out->text, filter_names()));
  tokens_.take();
  add(*out, std::move(value));
  if (tokens_.take_symbol("(")) TRY(arguments(*out));
  return out;
}

// True if the next token starts the argument of a test without brackets: `is divisibleby 3`.
bool ExpressionParser::begins_argument() const {
  if (tokens_.is(TokenKind::name))
    return !knows(std::array<std::string_view, 6>{"else", "or", "and", "if", "is", "in"}, tokens_.now().text);
  return tokens_.is(TokenKind::integer) || tokens_.is(TokenKind::real) ||
         tokens_.is(TokenKind::text_literal) || tokens_.is_symbol("[") || tokens_.is_symbol("{");
}

Result<ExprPtr> ExpressionParser::test(ExprPtr value) {
  const u32 line = tokens_.now().line;
  tokens_.take();
  const bool negated = tokens_.take_name("not");
  if (!tokens_.is(TokenKind::name)) return tokens_.unexpected("the name of a test");
  ExprPtr out = make(ExprKind::test, tokens_.now().text);
  if (!knows(test_names(), out->text)) return tokens_.fault(unknown("test", out->text, test_names()));
  tokens_.take();
  add(*out, std::move(value));
  if (tokens_.take_symbol("(")) {
    TRY(arguments(*out));
    if (!out->keywords.empty() || out->spread || out->spread_names)
      return TokenReader::fault_in(line, "a test takes no named arguments");
  } else if (begins_argument()) {
    TRY_ASSIGN(ExprPtr argument, primary());
    TRY_ASSIGN(argument, followed(std::move(argument)));
    add(*out, std::move(argument));
  }
  if (!negated) return out;
  ExprPtr negation = make(ExprKind::unary, "not");
  negation->line = line;
  add(*negation, std::move(out));
  return negation;
}

}  // namespace tidepool::jinja
