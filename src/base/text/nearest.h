// nearest() finds the known name that a mistyped name most likely means ("did you mean").
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// Edits (insert, delete, replace, swap neighbours) between two names.
u32 edit_distance(std::string_view a, std::string_view b);

// Nearest known name, or "" if no known name is close enough for a typing error.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// "; did you mean 'learning_rate'?", or "" if no known name is close.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace tidepool
