#include "fit/versions_shortage.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/budget_text.h"
#include "planner/advice/change_text.h"

namespace tidepool {

std::string why_one_version(const Job& job, const Plan& plan) {
  constexpr Tier tiers[] = {Tier::device, Tier::host, Tier::disk};
  const Budgets had{
      .device = plan.tiers[0].budget, .host = plan.tiers[1].budget, .disk = plan.tiers[2].budget};
  PlanOptions options = job.options;
  options.budgets.disk = had.disk;
  options.versions = 2;
  const Result<Plan> two = make_plan(job.graph, options);
  if (two) {
    // Two checkpoints, each a little larger than the state, need room beside it.
    const Bytes need = two->tiers[static_cast<u32>(Tier::disk)].planned_peak + two->second_slot * 2;
    if (need > had.disk)
      return fmt::format("beside two checkpoints {} {}",
                         job.config.memory.budgets.disk == disk_auto ? "the disk" : "memory.disk",
                         shortage_text(need, had.disk));
    return "in this plan the host lacks room for the buffers that it needs: set memory.versions=2, for "
           "which another plan is made";
  }
  for (const Change& change : two.error().changes) {
    const auto sets = [&](Tier tier) { return sets_budget(change, tier); };
    if (std::ranges::none_of(tiers, sets)) continue;
    const Budgets need = raised_by(change, had);
    std::string text;
    for (const Tier tier : tiers)
      if (need.of(tier) > had.of(tier))
        text += fmt::format("memory.{} {}, ", name(tier), shortage_text(need.of(tier), had.of(tier)));
    if (!text.empty()) return fmt::format("{}set {}", text, change_text(change));
  }
  return two.error().message;
}

}  // namespace tidepool
