// "did you mean": the nearest of some known names.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

// Edits (insert, delete, replace, swap neighbours) between two names.
u32 edit_distance(std::string_view a, std::string_view b);

// The nearest known name, or "" when none is near enough to be a slip of the hand.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// "; did you mean 'learning_rate'?", or "" when nothing is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace tidepool
