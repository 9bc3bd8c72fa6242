#include "fit/disk_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/budget_text.h"
#include "base/text/units.h"
#include "io/file_system.h"
#include "io/swap_file.h"
#include "planner/advice/change_text.h"

namespace tidepool {
namespace {

std::string elsewhere(const Config& config) {
  const char* where =
      config.memory.swap_dir.empty() ? "output.dir, or only memory.swap_dir," : "memory.swap_dir";
  return fmt::format("set {} to a directory on an SSD", where);
}

bool wants_disk(const Error& error) {
  return std::ranges::any_of(error.changes,
                             [](const Change& change) { return sets_budget(change, Tier::disk); });
}

// Error about other tiers that are short, found as if the disk had room. Its advice is kept only if the disk
// has room for a job with the advised budgets.
Error beside_the_disk(Error other, const Job& job, PlanOptions options, Bytes disk) {
  if (other.changes.empty()) return other;
  const Budgets had = options.budgets;
  options.budgets = raised_by(other.changes.front(), had);
  options.budgets.disk = disk;
  options.advise = false;
  if (check_fits(job.graph, options)) return other;
  std::string short_of;
  for (const Tier tier : {Tier::device, Tier::host})
    if (const Bytes need = options.budgets.of(tier); need > had.of(tier))
      short_of += fmt::format("{} {}; ", name(tier), shortage_text(need, had.of(tier)));
  return {other.kind,
          fmt::format("the job does not fit: {}the swap directory {} has {} free, which is also too little",
                      short_of, swap_directory(job.config), bytes_text(disk))};
}

}  // namespace

Result<Bytes> disk_budget(const Config& config) {
  if (config.memory.budgets.disk != disk_auto) return config.memory.budgets.disk;
  return swap_space(swap_directory(config));
}

Error explain_disk(const Job& job, PlanOptions options, Error error) {
  const Config& config = job.config;
  if (error.kind != ErrorKind::does_not_fit || config.memory.budgets.disk != disk_auto) return error;
  // The search for a plan may take seconds: it is skipped if more disk would not help.
  if (!wants_disk(error)) return error;
  const Bytes has = options.budgets.disk;
  options.budgets.disk = disk_auto;  // more than any disk has
  const Result<Plan> plan = make_plan(job.graph, options);
  if (!plan) return beside_the_disk(plan.error(), job, options, has);
  const Bytes need = plan->tiers[static_cast<u32>(Tier::disk)].planned_peak;
  const std::string dir = swap_directory(config);
  const Result<FileSystem> at = look_at_file_system(dir);
  if (!at) return at.error();
  if (at->pseudo)
    return {ErrorKind::io, fmt::format("the swap directory {} is on {}, which cannot hold files: {}", dir,
                                       at->name, elsewhere(config))};
  return {
      ErrorKind::io,
      fmt::format("the swap directory {} is on {} ({}), which has {} free, but this plan swaps {}: free "
                  "space, {} with more space, or raise memory.host or memory.device so that less is swapped",
                  dir, at->dir, at->name, bytes_text(has), bytes_text(need), elsewhere(config))};
}

}  // namespace tidepool
