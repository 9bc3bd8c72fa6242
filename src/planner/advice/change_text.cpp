#include "planner/advice/change_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/budget_text.h"
#include "base/text/value_text.h"

namespace tidepool {
namespace {

std::string key_of(Tier tier) { return fmt::format("memory.{}", name(tier)); }

}  // namespace

std::string setting_text(const Setting& setting) { return setting.key + "=" + setting.value; }

std::string change_text(const Change& change) {
  std::string out;
  for (const Setting& setting : change.settings) out += (out.empty() ? "" : " ") + setting_text(setting);
  if (!change.remark.empty()) out += fmt::format(" ({})", change.remark);
  return out;
}

Setting budget_setting(Tier tier, Bytes bytes) { return {key_of(tier), budget_text(bytes)}; }

bool sets_budget(const Change& change, Tier tier) {
  return std::ranges::find(change.settings, key_of(tier), &Setting::key) != change.settings.end();
}

Budgets raised_by(const Change& change, Budgets budgets) {
  for (const Setting& setting : change.settings)
    for (const Tier tier : all_tiers)
      if (setting.key == key_of(tier))
        budgets.of(tier) = std::max(budgets.of(tier), parse_size(setting.value).value());
  return budgets;
}

}  // namespace tidepool
