// Expressions, with Jinja's precedence: choice, or, and, not, comparison, + -, ~, * / // %, **, sign, what
// follows a value.
#pragma once

#include "huggingface/jinja/syntax.h"
#include "huggingface/jinja/token_reader.h"

namespace tidepool::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& tokens) : tokens_(tokens) {}

  // One value, or several with commas between them: a tuple then.
  Result<ExprPtr> tuple();
  Result<ExprPtr> expression() { return choice(true); }
  // Without `x if y else z`: the values of a for, whose own `if` follows.
  Result<ExprPtr> tuple_without_choice();

  // Names that are called and are none of Jinja's: macros, by name and line.
  struct Called {
    std::string name;
    u32 line;
  };
  const std::vector<Called>& called() const { return called_; }

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
  u32 depth_ = 0;
};

}  // namespace tidepool::jinja
