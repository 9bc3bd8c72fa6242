// Two plans of one run, before and after it was resumed.
#pragma once

#include <string>
#include <string_view>

namespace tidepool {

// A line for people on how two plan texts differ: settings and budgets by name, else that places and
// movements do; and what that does to losses and weights. Empty: they are the same.
std::string plan_change(std::string_view before, std::string_view now);

}  // namespace tidepool
