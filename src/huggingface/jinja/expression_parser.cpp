#include "huggingface/jinja/expression_parser.h"

#include <algorithm>
#include <array>

#include "huggingface/jinja/expression_parts.h"

namespace tidepool::jinja {

namespace {

constexpr u32 expression_depth_max = 100;  // nested brackets, signs and the like; bounds the stack

}  // namespace

class DepthGuard {
 public:
  explicit DepthGuard(ExpressionParser& parser) : depth_(parser.depth_) { ++depth_; }
  ~DepthGuard() { --depth_; }
  bool too_deep() const { return depth_ > expression_depth_max; }

 private:
  u32& depth_;
};

Error ExpressionParser::too_high() const { return tokens_.fault("an expression is nested too deeply"); }

ExprPtr ExpressionParser::make(ExprKind kind, std::string text) const {
  auto out = std::make_unique<Expr>();
  out->kind = kind;
  out->line = tokens_.now().line;
  out->text = std::move(text);
  return out;
}

Result<ExprPtr> ExpressionParser::tuple() { return tuple_of(true); }
Result<ExprPtr> ExpressionParser::tuple_without_choice() { return tuple_of(false); }

Result<ExprPtr> ExpressionParser::tuple_of(bool with_choice) {
  TRY_ASSIGN(ExprPtr first, choice(with_choice));
  if (!tokens_.is_symbol(",")) return first;
  ExprPtr out = make(ExprKind::tuple);
  add(*out, std::move(first));
  while (tokens_.take_symbol(",")) {
    if (tokens_.is(TokenKind::print_end) || tokens_.is(TokenKind::block_end)) break;
    TRY_ASSIGN(ExprPtr next, choice(with_choice));
    add(*out, std::move(next));
  }
  return out;
}

Result<ExprPtr> ExpressionParser::choice(bool allowed) {
  const DepthGuard guard(*this);
  if (guard.too_deep()) return too_high();
  TRY_ASSIGN(ExprPtr value, either());
  while (allowed && tokens_.is_name("if")) {
    ExprPtr out = make(ExprKind::choice);
    tokens_.take();
    TRY_ASSIGN(ExprPtr condition, either());
    ExprPtr otherwise;
    if (tokens_.take_name("else")) {
      TRY_ASSIGN(otherwise, choice(true));
    }
    add(*out, std::move(value), std::move(condition), std::move(otherwise));
    value = std::move(out);
    if (value->height > height_max) return too_high();
  }
  if (value->height > height_max) return too_high();
  return value;
}

Result<ExprPtr> ExpressionParser::either() {
  TRY_ASSIGN(ExprPtr left, both());
  if (!tokens_.is_name("or")) return left;
  ExprPtr out = make(ExprKind::either, "or");
  add(*out, std::move(left));
  while (tokens_.take_name("or")) {
    TRY_ASSIGN(ExprPtr right, both());
    add(*out, std::move(right));
  }
  return out;
}

Result<ExprPtr> ExpressionParser::both() {
  TRY_ASSIGN(ExprPtr left, negation());
  if (!tokens_.is_name("and")) return left;
  ExprPtr out = make(ExprKind::both, "and");
  add(*out, std::move(left));
  while (tokens_.take_name("and")) {
    TRY_ASSIGN(ExprPtr right, negation());
    add(*out, std::move(right));
  }
  return out;
}

Result<ExprPtr> ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const DepthGuard guard(*this);
  if (guard.too_deep()) return too_high();
  ExprPtr out = make(ExprKind::unary, "not");
  tokens_.take();
  TRY_ASSIGN(ExprPtr value, negation());
  add(*out, std::move(value));
  return out;
}

Result<ExprPtr> ExpressionParser::comparison() {
  TRY_ASSIGN(ExprPtr first, sum());
  ExprPtr out = make(ExprKind::comparison);
  add(*out, std::move(first));
  while (true) {
    std::string op;
    if (tokens_.is(TokenKind::symbol) &&
        knows(std::array<std::string_view, 6>{"==", "!=", "<", "<=", ">", ">="}, tokens_.now().text)) {
      op = tokens_.take().text;
    } else if (tokens_.is_name("in")) {
      op = tokens_.take().text;
    } else if (tokens_.is_name("not") && tokens_.after().kind == TokenKind::name &&
               tokens_.after().text == "in") {
      tokens_.take();
      tokens_.take();
      op = "not in";
    } else {
      break;
    }
    TRY_ASSIGN(ExprPtr next, sum());
    out->texts.push_back(std::move(op));
    add(*out, std::move(next));
  }
  if (out->texts.empty()) return std::move(out->parts[0]);
  return out;
}

Result<ExprPtr> ExpressionParser::sum() {
  TRY_ASSIGN(ExprPtr left, joined());
  while (tokens_.is_symbol("+") || tokens_.is_symbol("-")) {
    if (left->height > height_max) return too_high();
    ExprPtr out = make(ExprKind::binary, tokens_.now().text);
    tokens_.take();
    TRY_ASSIGN(ExprPtr right, joined());
    add(*out, std::move(left), std::move(right));
    left = std::move(out);
  }
  return left;
}

Result<ExprPtr> ExpressionParser::joined() {
  TRY_ASSIGN(ExprPtr left, product());
  if (!tokens_.is_symbol("~")) return left;
  ExprPtr out = make(ExprKind::binary, "~");
  add(*out, std::move(left));
  while (tokens_.take_symbol("~")) {
    TRY_ASSIGN(ExprPtr right, product());
    add(*out, std::move(right));
  }
  return out;
}

Result<ExprPtr> ExpressionParser::product() {
  TRY_ASSIGN(ExprPtr left, power());
  while (tokens_.is(TokenKind::symbol) &&
         knows(std::array<std::string_view, 4>{"*", "/", "//", "%"}, tokens_.now().text)) {
    if (left->height > height_max) return too_high();
    ExprPtr out = make(ExprKind::binary, tokens_.now().text);
    tokens_.take();
    TRY_ASSIGN(ExprPtr right, power());
    add(*out, std::move(left), std::move(right));
    left = std::move(out);
  }
  return left;
}

Result<ExprPtr> ExpressionParser::power() {
  TRY_ASSIGN(ExprPtr left, sign(true));
  while (tokens_.is_symbol("**")) {  // Jinja groups powers from the left
    if (left->height > height_max) return too_high();
    ExprPtr out = make(ExprKind::binary, "**");
    tokens_.take();
    TRY_ASSIGN(ExprPtr right, sign(true));
    add(*out, std::move(left), std::move(right));
    left = std::move(out);
  }
  return left;
}

Result<ExprPtr> ExpressionParser::sign(bool with_filters) {
  const DepthGuard guard(*this);
  if (guard.too_deep()) return too_high();
  ExprPtr value;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    value = make(ExprKind::unary, tokens_.now().text);
    tokens_.take();
    TRY_ASSIGN(ExprPtr inner, sign(false));
    add(*value, std::move(inner));
  } else {
    TRY_ASSIGN(value, primary());
  }
  TRY_ASSIGN(value, followed(std::move(value)));
  if (!with_filters) return value;
  return filtered(std::move(value));
}

}  // namespace tidepool::jinja
