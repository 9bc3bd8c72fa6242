#include "trainer/disk_shortage.h"

#include <fmt/format.h>

#include "io/file_system.h"
#include "report/units.h"

namespace tidepool {
namespace {

std::string elsewhere(const Config& config) {
  const char* where =
      config.memory.swap_dir.empty() ? "output.dir, or memory.swap_dir alone," : "memory.swap_dir";
  return fmt::format("point {} at a directory on an SSD", where);
}

}  // namespace

Error explain_disk(const Config& config, const ModelGraph& graph, PlanOptions options, Error error) {
  if (error.kind != ErrorKind::does_not_fit || config.memory.budgets.disk != disk_auto) return error;
  // The search for a plan may take seconds: not again where more disk would not help.
  if (error.message.find("memory.disk=") == std::string::npos) return error;
  const Bytes has = options.budgets.disk;
  options.budgets.disk = disk_auto;  // more than there can be
  const Result<Plan> plan = make_plan(graph, options);
  if (!plan) return plan.error();
  const Bytes need = plan->tiers[static_cast<u32>(Tier::disk)].planned_peak;
  const std::string dir = swap_directory(config);
  const Result<FileSystem> at = look_at_file_system(dir);
  if (!at) return at.error();
  if (at->pseudo)
    return {ErrorKind::io, fmt::format("the swap directory {} is on {}, which holds no files: {}", dir,
                                       at->name, elsewhere(config))};
  return {ErrorKind::io,
          fmt::format(
              "the swap directory {} is on {} ({}), which has {} free, and this plan swaps {} there: free "
              "space, {} with more, or raise memory.host or memory.device so that less is swapped",
              dir, at->dir, at->name, bytes_text(has), bytes_text(need), elsewhere(config))};
}

}  // namespace tidepool
