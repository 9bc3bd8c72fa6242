// Examines for the doctor if a config's job fits, by the plan that `train` would make here.
#include <fmt/format.h>

#include <string>

#include "base/text/units.h"
#include "cli/doctor.h"
#include "executor/shared/row_lookup.h"
#include "fit/memory_need.h"
#include "fit/plan_run.h"
#include "machine/topology.h"
#include "run/outputs/training_memory.h"

namespace tidepool {
namespace {

// RETURNS: "device 8.12 MiB of 8.50 MiB, host 4.97 MiB of 5.00 MiB, disk 71.2 MiB".
std::string describe(const Plan& plan, bool disk_is_auto) {
  std::string out;
  for (const Tier tier : all_tiers) {
    const TierUse& use = plan.tiers[static_cast<u32>(tier)];
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name(tier), bytes_text(use.planned_peak));
    if (tier != Tier::disk || !disk_is_auto) out += fmt::format(" of {}", bytes_text(use.budget));
  }
  return out;
}

}  // namespace

std::vector<Finding> examine_plan(const Result<Job>& job, Wanted& wanted) {
  const auto refused = [](const Error& error) {
    return std::vector<Finding>{{Health::fail, "plan", error.message, "", error.kind}};
  };
  if (!job) return refused(job.error());
  const Config& config = job->config;
  const Result<RunPlan> run = plan_run(*job, PlanFor::this_machine);
  if (!run) return refused(run.error());
  const Result<std::unique_ptr<Topology>> topology = create_topology();
  if (!topology) return refused(topology.error());
  const MemoryNeed need = memory_need(
      config, run->plan,
      {.workers = config.machine.threads != 0 ? config.machine.threads : (*topology)->usable_cores(),
       .loads_weights = !config.model_directory.empty(),
       .steps = training_memory(config, run->plan),
       .updates = update_scratch_of_host(job->graph, run->plan, device_memory_of(config)),
       .lookups = lookup_memory(run->plan, job->graph.batch.rows())});
  const Bytes disk = run->plan.tiers[static_cast<u32>(Tier::disk)].planned_peak;
  wanted = {.memory = need.arenas, .beside = need.beside, .disk = disk, .swaps = disk.value > 0};
  return {{.what = "plan", .found = describe(run->plan, config.memory.budgets.disk == disk_auto)}};
}

}  // namespace tidepool
