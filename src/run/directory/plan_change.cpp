#include "run/directory/plan_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

namespace tidepool {
namespace {

using Settings = std::map<std::string, std::string>;

// Reads the settings in the lines above the first home: "sweeps" -> "2", "host budget" -> "2097152". Such
// lines hold pairs of words; the pairs after "tier NAME" belong to that tier.
Settings settings_of(std::string_view plan) {
  // The text has these only if they are not the default.
  Settings out = {{"devices", "1"}, {"parallel", "data"}, {"nodes", "1"}};
  std::istringstream lines{std::string(plan.substr(0, plan.find("\nhome ")))};
  std::string line;
  std::getline(lines, line);  // "tidepool plan 1"
  while (std::getline(lines, line) && !line.starts_with("segment ")) {
    std::istringstream words(line);
    std::string key, value, tier;
    while (words >> key >> value) {
      if (key == "tier") {
        tier = value + ' ';
      } else if (key == "node") {  // "node 0 of 2"
        words >> key >> out["nodes"];
      } else if (tier.empty() || key == "budget") {  // skips peaks, which follow from the other settings
        out[tier + key] = value;
      }
    }
  }
  return out;
}

// PlanDifference compares the settings of a run before and after a resume.
class PlanDifference {
 public:
  PlanDifference(Settings before, Settings now) : before_(std::move(before)), now_(std::move(now)) {}

  // RETURNS: a line such as "sweeps 1 -> 2" for each setting that differs.
  std::vector<std::string> lines() const {
    Settings all = before_;
    all.insert(now_.begin(), now_.end());
    std::vector<std::string> out;
    for (const auto& [key, value] : all)
      if (changed(key)) out.push_back(fmt::format("{} {} -> {}", key, value_in(before_, key), now(key)));
    return out;
  }

  // RETURNS: the effect of the changes on losses and weights, for people.
  std::string effect() const {
    std::vector<std::string_view> out;
    if (clips(before_) != clips(now_))
      out.push_back(clips(now_) ? "gradients are clipped from here on, which changes weights"
                                : "gradients are no longer clipped, which changes weights");
    if (!sums_in_same_order()) out.push_back("sums are computed in another order, so the last digits differ");
    if (changed("micro_batches")) out.push_back("dropout draws other masks for other micro-batches");
    if (out.empty()) return "that changes no loss and no weight";
    return fmt::format("{}", fmt::join(out, "; "));
  }

 private:
  static std::string value_in(const Settings& settings, const std::string& key) {
    const auto found = settings.find(key);
    return found == settings.end() ? "none" : found->second;
  }
  std::string now(const std::string& key) const { return value_in(now_, key); }
  bool changed(const std::string& key) const { return value_in(before_, key) != now(key); }

  // Updates may wait for the norm or assume it.
  static bool clips(const Settings& settings) { return value_in(settings, "clipping") != "off"; }
  // Shares of a step's micro-batches that are summed by themselves: one per device, or with layers over
  // devices one per node.
  static u64 shares(const Settings& settings) {
    const auto number = [&](const char* key) {
      return std::strtoull(value_in(settings, key).c_str(), nullptr, 10);
    };
    return number("nodes") * (value_in(settings, "parallel") == "layers" ? 1 : number("devices"));
  }
  // True if gradients are summed in the order of micro-batches: in one share, or one micro-batch in each.
  static bool sums_one_by_one(const Settings& settings) {
    const u64 all = shares(settings);
    return all == 1 || std::to_string(all) == value_in(settings, "micro_batches");
  }
  // Shares of devices are summed before those of nodes.
  bool sums_in_same_order() const {
    if (changed("micro_batches")) return false;
    if (sums_one_by_one(before_) && sums_one_by_one(now_)) return true;
    return shares(before_) == shares(now_) && !changed("nodes");
  }

  Settings before_, now_;
};

}  // namespace

std::string plan_change(std::string_view before, std::string_view now) {
  if (before == now) return "";
  const PlanDifference difference(settings_of(before), settings_of(now));
  const std::vector<std::string> lines = difference.lines();
  return fmt::format("the plan has changed ({}): {}",
                     lines.empty() ? "places or movements" : fmt::format("{}", fmt::join(lines, ", ")),
                     difference.effect());
}

}  // namespace tidepool
