// Functions that cut known pieces off a text, such as the names of tensors.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// RETURNS: the text without `end`, or the whole text if it ends otherwise.
inline std::string_view without_end(std::string_view text, std::string_view end) {
  return text.ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

// Removes `prefix`. RETURNS: false if the text begins otherwise.
inline bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Removes a number and the dot behind it. RETURNS: the number; none if the text begins otherwise.
inline std::optional<u32> take_number(std::string_view& text) {
  u32 number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.') return std::nullopt;
  text.remove_prefix(static_cast<u64>(end + 1 - text.data()));
  return number;
}

}  // namespace tidepool
