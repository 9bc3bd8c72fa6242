// plan_change() compares the plans of a run before and after a resume.
#pragma once

#include <string>
#include <string_view>

namespace tidepool {

// RETURNS: a line for people that says how two plan texts differ, and the effect on losses and weights. It
// lists changed settings and budgets by name; if none changed, it says that places or movements did. Empty:
// the plans are the same.
std::string plan_change(std::string_view before, std::string_view now);

}  // namespace tidepool
