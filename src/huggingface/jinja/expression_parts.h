// Helpers that both source files of the expression parser use.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "huggingface/jinja/syntax.h"

namespace tidepool::jinja {

inline constexpr u32 height_max = 150;  // of an expression's tree; bounds the evaluator's stack

inline void add_one(Expr& to, ExprPtr part) {
  if (part) to.height = std::max(to.height, part->height + 1);
  to.parts.push_back(std::move(part));
}
template <class... Parts>
void add(Expr& to, Parts... parts) {
  (add_one(to, std::move(parts)), ...);
}

inline bool knows(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace tidepool::jinja
