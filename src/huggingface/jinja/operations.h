// Operations on values as Jinja and Python define them: operators, elements, and the tables of filters,
// tests, methods and functions. Errors carry no line number.
#pragma once

#include "huggingface/jinja/arguments.h"

namespace tidepool::jinja {

// RETURNS: Undefined if there is no such attribute or item.
Value attribute_of(const Value&, std::string_view name);
Result<Value> item_of(const Value&, const Value& at, Work&);
Result<Value> slice_of(const Value&, const Value* from, const Value* to, const Value* step, Work&);
// Elements that a `for` iterates over: elements of a list, keys of a dict, characters of a text.
// An iterator is used up.
Result<std::shared_ptr<const List>> elements_of(const Value&, Work&);

Result<Value> binary(std::string_view op, const Value&, const Value&, Work&);
Result<Value> negative(const Value&);
// Operators: == != < <= > >=, in, not in.
Result<bool> compare(std::string_view op, const Value&, const Value&, Work&);

Result<Value> apply_filter(std::string_view name, const Value&, const Arguments&);
Result<bool> apply_test(std::string_view name, const Value&, const Arguments&);
Result<Value> call_method(const Value&, std::string_view name, const Arguments&);

// Shared by filters and methods.
Result<std::string> replaced(const std::string& text, const std::string& from, const std::string& to,
                             i64 count);
std::string escaped(std::string_view text);  // for HTML
// Python's text % values.
Result<std::string> formatted(std::string_view form, const Value& values, Work&);
// Python's text.format(...).
Result<std::string> formatted_by_braces(std::string_view form, const Arguments&);
std::string capitalized(std::string_view text);
std::vector<std::string> lines_of(std::string_view text, bool keep_ends = false);  // str.splitlines()
Result<std::string> joined(const List&, const std::string& between, Work&);
inline constexpr u64 parts_max = 1'000'000;  // into which a text is split
Result<void> check_count(u64 parts);

// Pays for reading a value: all of it (deep), or only a text's bytes and the number of elements.
Result<void> pay_deep(Work&, const Value&);
Result<void> pay_shallow(Work&, const Value&);
// RETURNS: str(value), paid for. Error: the value has no text.
Result<std::string> text_for(const Value&, Work&);

// Error for using an undefined name. Testing whether it is defined is allowed.
Error undefined_fault(const Value&);

}  // namespace tidepool::jinja
