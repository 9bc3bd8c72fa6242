// Arguments of a filter, method, test or function, by position or by name, and the counter of its work.
// Errors carry no line number: the caller adds it.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "huggingface/jinja/value.h"
#include "huggingface/jinja/work.h"

namespace tidepool::jinja {

inline Error fault(std::string text) { return {ErrorKind::bad_input, std::move(text)}; }

struct Arguments {
  Work& work;  // of the rendering
  std::vector<Value> places;
  std::vector<std::pair<std::string, Value>> names;

  // RETURNS: null if the argument was not given.
  const Value* get(size_t place, std::string_view name) const {
    if (place < places.size()) return &places[place];
    return named(name);
  }
  const Value* named(std::string_view name) const {
    for (const auto& [key, value] : names) {
      if (key == name) return &value;
    }
    return nullptr;
  }
  // Error if there are more arguments than names in `known`, or if one has another name.
  Result<void> check(std::initializer_list<std::string_view> known) const;

  Result<std::string> text(size_t place, std::string_view name) const;
  Result<std::string> text_or(size_t place, std::string_view name, std::string preset) const;
  Result<i64> integer_or(size_t place, std::string_view name, i64 preset) const;
  bool truth_or(size_t place, std::string_view name, bool preset) const;
};

}  // namespace tidepool::jinja
