// Changes of a config that an error advises: as text, and as budgets.
#pragma once

#include <string>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

std::string setting_text(const Setting&);  // "KEY=VALUE"
std::string change_text(const Change&);    // "KEY=VALUE KEY=VALUE (a remark)"

// Setting of memory.device, memory.host or memory.disk, written by budget_text().
Setting budget_setting(Tier, Bytes);
bool sets_budget(const Change&, Tier);

// Budgets after the change: each budget that the change raises has its new size.
// REQUIRES: the change sets these keys to sizes.
Budgets raised_by(const Change&, Budgets);

}  // namespace tidepool
