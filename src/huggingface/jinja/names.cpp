#include "huggingface/jinja/names.h"

#include <algorithm>
#include <array>

namespace tidepool::jinja {

namespace {

constexpr std::array known_filters = std::to_array<std::string_view>(
    {"abs",    "capitalize", "count",   "d",       "default", "first",  "float",      "indent",
     "int",    "items",      "join",    "last",    "length",  "list",   "lower",      "map",
     "reject", "rejectattr", "replace", "reverse", "safe",    "select", "selectattr", "sort",
     "string", "title",      "tojson",  "trim",    "unique",  "upper"});
constexpr std::array known_tests = std::to_array<std::string_view>(
    {"!=",      "<",           "<=",        "==",      ">",           ">=",      "boolean",
     "defined", "divisibleby", "eq",        "equalto", "even",        "false",   "float",
     "ge",      "gt",          "in",        "integer", "iterable",    "le",      "lower",
     "lt",      "mapping",     "ne",        "none",    "number",      "odd",     "sequence",
     "string",  "true",        "undefined", "upper",   "greaterthan", "lessthan"});
constexpr std::array known_methods = std::to_array<std::string_view>(
    {"strip",        "lstrip",       "rstrip",  "split", "rsplit",  "splitlines",
     "startswith",   "endswith",     "replace", "upper", "lower",   "title",
     "capitalize",   "find",         "count",   "join",  "isdigit", "isspace",
     "removeprefix", "removesuffix", "get",     "items", "keys",    "values"});

struct NamedFunction {
  std::string_view name;
  Function function;
};
constexpr std::array<NamedFunction, 5> functions = {{{"raise_exception", Function::raise_exception},
                                                     {"strftime_now", Function::strftime_now},
                                                     {"range", Function::range},
                                                     {"namespace", Function::make_namespace},
                                                     {"dict", Function::dict}}};

}  // namespace

std::span<const std::string_view> filter_names() { return known_filters; }
std::span<const std::string_view> test_names() { return known_tests; }
std::span<const std::string_view> method_names() { return known_methods; }

std::optional<Function> function_named(std::string_view name) {
  const auto found = std::ranges::find(functions, name, &NamedFunction::name);
  if (found == functions.end()) return std::nullopt;
  return found->function;
}

}  // namespace tidepool::jinja
