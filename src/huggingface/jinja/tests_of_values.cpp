// Jinja's tests: `is ...`.
#include <fmt/format.h>

#include "huggingface/jinja/operations.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

// The comparison operator that a test stands for; empty: none.
std::string_view comparison_named(std::string_view name) {
  if (name == "eq" || name == "equalto" || name == "==") return "==";
  if (name == "ne" || name == "!=") return "!=";
  if (name == "lt" || name == "lessthan" || name == "<") return "<";
  if (name == "le" || name == "<=") return "<=";
  if (name == "gt" || name == "greaterthan" || name == ">") return ">";
  if (name == "ge" || name == ">=") return ">=";
  return name == "in" ? name : "";
}

Result<i64> rest_of(const Value& v, i64 by) {
  TRY_ASSIGN(const Value rest, binary("%", v, Value(by)));
  if (rest.integer() == nullptr) return fault(fmt::format("must be an integer, not {}", type_name(v)));
  return *rest.integer();
}

bool is_cased(const std::string& text, bool upper_case) {
  return (upper_case ? upper(text) : lower(text)) == text && upper(text) != lower(text);
}

Result<bool> plain_test(std::string_view name, const Value& v) {
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "string") return v.text() != nullptr;
  if (name == "mapping") return v.dict() != nullptr;
  if (name == "sequence") return v.text() || v.list() || v.dict() || v.is_undefined();
  if (name == "iterable") return v.text() || v.list() || v.dict() || v.is_undefined();
  if (name == "number") return v.integer() || v.large_integer() || v.real() || v.boolean();
  if (name == "integer") return v.integer() || v.large_integer();
  if (name == "float") return v.real() != nullptr;
  if (name == "boolean") return v.boolean() != nullptr;
  if (name == "true") return v.boolean() && *v.boolean();
  if (name == "false") return v.boolean() && !*v.boolean();
  if (name == "upper" || name == "lower") return is_cased(to_text(v), name == "upper");
  TRY_ASSIGN(const i64 rest, rest_of(v, 2));
  return (rest == 0) == (name == "even");
}

}  // namespace

Result<bool> apply_test(std::string_view name, const Value& v, const Arguments& a) {
  const std::string_view op = comparison_named(name);
  const size_t wanted = !op.empty() || name == "divisibleby" ? 1 : 0;
  if (a.places.size() != wanted)
    return fault(fmt::format("the test '{}' takes {} arguments, not {}", name, wanted, a.places.size()));
  if (!op.empty()) return compare(op, v, a.places[0]);
  if (name != "divisibleby") return plain_test(name, v);
  if (a.places[0].integer() == nullptr) return fault("divisibleby: must be given an integer");
  TRY_ASSIGN(const i64 rest, rest_of(v, *a.places[0].integer()));
  return rest == 0;
}

}  // namespace tidepool::jinja
