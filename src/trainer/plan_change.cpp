#include "trainer/plan_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <sstream>
#include <vector>

namespace tidepool {
namespace {

// Of the lines above the first home: "sweeps" -> "2", "host budget" -> "2097152". They hold pairs of words,
// after "tier NAME" those of a tier.
std::map<std::string, std::string> settings_of(std::string_view plan) {
  std::map<std::string, std::string> out;
  std::istringstream lines{std::string(plan.substr(0, plan.find("\nhome ")))};
  std::string line;
  std::getline(lines, line);  // "tidepool plan 1"
  while (std::getline(lines, line) && !line.starts_with("segment ")) {
    std::istringstream words(line);
    std::string key, value, tier;
    while (words >> key >> value) {
      if (key == "tier") {
        tier = value + ' ';
      } else if (tier.empty() || key == "budget") {  // peaks follow from the rest
        out[tier + key] = value;
      }
    }
  }
  return out;
}

}  // namespace

std::string plan_change(std::string_view before, std::string_view now) {
  if (before == now) return "";
  const auto old_settings = settings_of(before);
  std::vector<std::string> changes;
  for (const auto& [key, value] : settings_of(now)) {
    const auto found = old_settings.find(key);
    const std::string was = found == old_settings.end() ? "none" : found->second;
    if (was != value) changes.push_back(fmt::format("{} {} -> {}", key, was, value));
  }
  return fmt::format(
      "another plan than before ({}): losses and weights do not depend on it",
      changes.empty() ? "other places or movements" : fmt::format("{}", fmt::join(changes, ", ")));
}

}  // namespace tidepool
