// ExpressionParser parses expressions with Jinja's precedence, from low to high: choice, or, and, not,
// comparison, + -, ~, * / // %, **, sign, postfix.
#pragma once

#include "huggingface/jinja/syntax.h"
#include "huggingface/jinja/token_reader.h"

namespace tidepool::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& tokens) : tokens_(tokens) {}

  // Parses one value, or a tuple: several values with commas between them.
  Result<ExprPtr> tuple();
  Result<ExprPtr> expression() { return choice(true); }
  // Parses without `x if y else z`: the iterable of a `for`, which may be followed by an `if` of its own.
  Result<ExprPtr> tuple_without_choice();

  // Called names that are not built in, so they must be macros. With their lines.
  struct Called {
    std::string name;
    u32 line;
  };
  const std::vector<Called>& called() const { return called_; }

  // Filters behind an empty value, `upper | trim`: of {% filter %} and {% set x | upper %}. RETURNS: an
  // expression whose innermost value is the name `text`.
  Result<ExprPtr> filters_of(std::string_view text);

  // Names of a macro's own that its body uses. They decide which arguments it takes.
  struct Used {
    bool caller = false, places = false, names = false;
  };
  Used& used() { return used_; }
  // Parses a call, for {% call %}.
  Result<ExprPtr> call_expression();

 private:
  friend class DepthGuard;
  Result<ExprPtr> tuple_of(bool with_choice);
  Result<ExprPtr> choice(bool allowed);
  Result<ExprPtr> either();
  Result<ExprPtr> both();
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> sum();
  Result<ExprPtr> joined();
  Result<ExprPtr> product();
  Result<ExprPtr> power();
  Result<ExprPtr> sign(bool with_filters);
  Result<ExprPtr> primary();
  Result<ExprPtr> number();
  Result<ExprPtr> items(ExprKind, std::string_view end);
  Result<ExprPtr> dict();
  Result<ExprPtr> followed(ExprPtr value);
  Result<ExprPtr> filtered(ExprPtr value);
  Result<ExprPtr> attribute(ExprPtr value);
  Result<ExprPtr> subscript(ExprPtr value);
  Result<ExprPtr> call(ExprPtr callee);
  Result<ExprPtr> filter(ExprPtr value);
  Result<ExprPtr> test(ExprPtr value);
  Result<void> arguments(Expr& into);
  bool begins_argument() const;
  Error too_high() const;

  ExprPtr make(ExprKind kind, std::string text = "") const;

  TokenReader& tokens_;
  std::vector<Called> called_;
  Used used_;
  u32 depth_ = 0;
};

}  // namespace tidepool::jinja
