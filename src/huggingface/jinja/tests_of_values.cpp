// Jinja's tests: `is ...`.
#include <fmt/format.h>

#include <algorithm>

#include "huggingface/jinja/names.h"
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

Result<bool> leaves(const Value& v, i64 by, i64 wanted, Work& work) {
  if (!v.integer() && !v.boolean() && !v.real())
    return fault(fmt::format("must be a number, not {}", type_name(v)));
  TRY_ASSIGN(const Value rest, binary("%", v, Value(by), work));
  return equal(rest, Value(wanted));
}

// Python's `is`: the same object. Only values that exist once, and lists and mappings, can be told.
Result<bool> is_same(const Value& a, const Value& b) {
  const auto single = [](const Value& v) { return v.boolean() || v.is_none(); };
  if (single(a) || single(b)) return a.held().index() == b.held().index() && equal(a, b);
  if (a.list() || b.list()) return a.list() == b.list();
  if (a.dict() || b.dict()) return a.dict() == b.dict();
  if (a.held().index() != b.held().index()) return false;
  return fault(fmt::format("sameas of a {} depends on where Python holds it; use ==", type_name(a)));
}

bool is_cased(const std::string& text, bool upper_case) {
  return (upper_case ? upper(text) : lower(text)) == text && upper(text) != lower(text);
}

Result<bool> plain_test(std::string_view name, const Value& v, Work& work) {
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "string") return v.text() != nullptr;
  if (name == "mapping") return v.dict() != nullptr;
  if (name == "sequence")
    return v.text() || (v.list() && (v.look() == Look::plain || v.look() == Look::range || v.is_tuple())) ||
           v.dict() || v.is_undefined();
  if (name == "iterable") return v.text() || v.list() || v.dict() || v.iterator() || v.is_undefined();
  if (name == "escaped") return v.is_markup();
  if (name == "callable")
    return std::holds_alternative<Function>(v.held()) ||
           std::holds_alternative<std::shared_ptr<const Macro>>(v.held()) || v.is_undefined();
  if (name == "filter" || name == "test") {
    const auto known = name == "filter" ? filter_names() : test_names();
    return v.text() && std::ranges::find(known, *v.text()) != known.end();
  }
  if (name == "number") return v.integer() || v.large_integer() || v.real() || v.boolean();
  if (name == "integer") return v.integer() || v.large_integer();
  if (name == "float") return v.real() != nullptr;
  if (name == "boolean") return v.boolean() != nullptr;
  if (name == "true") return v.boolean() && *v.boolean();
  if (name == "false") return v.boolean() && !*v.boolean();
  if (name == "upper" || name == "lower") return is_cased(to_text(v), name == "upper");
  return leaves(v, 2, name == "even" ? 0 : 1, work);
}

}  // namespace

Result<bool> apply_test(std::string_view name, const Value& v, const Arguments& a) {
  const std::string_view op = comparison_named(name);
  const size_t wanted = !op.empty() || name == "divisibleby" || name == "sameas" ? 1 : 0;
  if (a.places.size() != wanted)
    return fault(fmt::format("the test '{}' takes {} arguments, not {}", name, wanted, a.places.size()));
  TRY(a.work.spend(1));
  if (!op.empty()) return compare(op, v, a.places[0], a.work);
  if (name == "sameas") return is_same(v, a.places[0]);
  if (name != "divisibleby") {
    TRY(pay_shallow(a.work, v));
    return plain_test(name, v, a.work);
  }
  if (a.places[0].integer() == nullptr) return fault("divisibleby: must be given an integer");
  return leaves(v, *a.places[0].integer(), 0, a.work);
}

}  // namespace tidepool::jinja
