#include "huggingface/jinja/names.h"

#include <algorithm>
#include <array>

namespace tidepool::jinja {

namespace {

constexpr std::array known_filters = std::to_array<std::string_view>(
    {"abs",      "attr",   "batch",      "capitalize", "center",     "count",       "d",       "default",
     "dictsort", "e",      "escape",     "first",      "float",      "forceescape", "format",  "groupby",
     "indent",   "int",    "items",      "join",       "last",       "length",      "list",    "lower",
     "map",      "max",    "min",        "reject",     "rejectattr", "replace",     "reverse", "round",
     "safe",     "select", "selectattr", "slice",      "sort",       "string",      "sum",     "title",
     "tojson",   "trim",   "truncate",   "unique",     "upper",      "wordcount"});
constexpr std::array known_tests = std::to_array<std::string_view>(
    {"!=",      "<",           "<=",   "==",        ">",       ">=",          "boolean", "callable",
     "defined", "divisibleby", "eq",   "equalto",   "escaped", "even",        "false",   "filter",
     "float",   "ge",          "gt",   "in",        "integer", "iterable",    "le",      "lower",
     "lt",      "mapping",     "ne",   "none",      "number",  "odd",         "sameas",  "sequence",
     "string",  "test",        "true", "undefined", "upper",   "greaterthan", "lessthan"});
constexpr std::array known_methods = std::to_array<std::string_view>(
    {"strip",    "lstrip",       "rstrip",       "split",   "rsplit",    "splitlines",  "startswith",
     "endswith", "replace",      "upper",        "lower",   "title",     "capitalize",  "swapcase",
     "find",     "rfind",        "index",        "rindex",  "count",     "join",        "format",
     "center",   "ljust",        "rjust",        "zfill",   "partition", "rpartition",  "isalnum",
     "isalpha",  "isascii",      "isdecimal",    "isdigit", "islower",   "isprintable", "isspace",
     "isupper",  "removeprefix", "removesuffix", "get",     "items",     "keys",        "values",
     "copy"});

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
