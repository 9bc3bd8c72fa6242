// Changes of a config that an error advises: for people, and as budgets.
#pragma once

#include <string>

#include "base/result.h"
#include "tidepool/plan.h"

namespace tidepool {

std::string setting_text(const Setting&);  // "KEY=VALUE"
std::string change_text(const Change&);    // "KEY=VALUE KEY=VALUE (a remark)"

// memory.device, memory.host or memory.disk, as budget_text has it.
Setting budget_setting(Tier, Bytes);
bool sets_budget(const Change&, Tier);

// The budgets, those that the change sets higher as it does. REQUIRES: it sets them to sizes.
Budgets raised_by(const Change&, Budgets);

}  // namespace tidepool
