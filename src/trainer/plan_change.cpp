#include "trainer/plan_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <vector>

namespace tidepool {
namespace {

constexpr std::array<std::string_view, 2> decide_sums = {"micro_batches", "devices"};

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
  bool sums_differ = false;
  for (const auto& [key, value] : settings_of(now)) {
    const auto found = old_settings.find(key);
    const std::string was = found == old_settings.end() ? "none" : found->second;
    if (was == value) continue;
    changes.push_back(fmt::format("{} {} -> {}", key, was, value));
    sums_differ = sums_differ || std::ranges::find(decide_sums, key) != decide_sums.end();
  }
  return fmt::format(
      "another plan than before ({}): {}",
      changes.empty() ? "other places or movements" : fmt::format("{}", fmt::join(changes, ", ")),
      sums_differ
          ? "sums are made in another order, so the last digits differ; dropout draws other masks for "
            "other micro-batches"
          : "losses and weights do not depend on it");
}

}  // namespace tidepool
