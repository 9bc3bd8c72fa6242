// The arguments of a filter, a method, a test or a function, by place or by name. All errors here are without
// a place: whoever called knows the line.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "huggingface/jinja/value.h"

namespace tidepool::jinja {

inline Error fault(std::string text) { return {ErrorKind::bad_input, std::move(text)}; }

struct Arguments {
  std::vector<Value> places;
  std::vector<std::pair<std::string, Value>> names;

  // null: not given.
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
  // At most as many as `known`, and named as these.
  Result<void> check(std::initializer_list<std::string_view> known) const;

  Result<std::string> text(size_t place, std::string_view name) const;
  Result<std::string> text_or(size_t place, std::string_view name, std::string preset) const;
  Result<i64> integer_or(size_t place, std::string_view name, i64 preset) const;
  bool truth_or(size_t place, std::string_view name, bool preset) const;
};

}  // namespace tidepool::jinja
