#include "trainer/plan_run.h"

#include <fmt/format.h>

#include "machine/machine_file.h"
#include "report/units.h"
#include "trainer/alternatives.h"
#include "trainer/disk_shortage.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

Result<void> check_budgets(const PlanOptions& options, const Machine& machine) {
  const auto check = [&](Tier tier, Bytes has) -> Result<void> {
    const Bytes budget = options.budgets.of(tier);
    if (has.value == 0 || budget <= has) return {};
    return Error{
        ErrorKind::does_not_fit,
        fmt::format("memory.{}={} is more than {} has ({}): set memory.{} to what training may use of it",
                    name(tier), bytes_text(budget), machine.name, bytes_text(has), name(tier))};
  };
  TRY(check(Tier::device, machine.device.memory));
  return check(Tier::host, machine.host.memory);
}

// Rates that nobody gave would be made up, and the plan with them.
Result<void> check_disk(const Config& config, const Machine& machine) {
  const Bytes disk = config.memory.budgets.disk;
  if (disk == disk_auto || disk.value == 0 || machine.disk != DiskRates{}) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("memory.disk={}, and {} has no disk: give the file a section 'disk' with capacity, "
                  "read and write, or set memory.disk=0",
                  bytes_text(disk), config.machine.file)};
}

Bytes per_second(double rate) { return Bytes{static_cast<u64>(rate)}; }

}  // namespace

Result<std::optional<Machine>> machine_of_file(const Config& config) {
  if (config.machine.file.empty()) return std::optional<Machine>();
  TRY_ASSIGN(Machine machine, load_machine(config.machine.file));
  return std::optional(std::move(machine));
}

Config on_machine(const Config& config, const std::optional<Machine>& machine) {
  Config out = config;
  if (!machine || machine->device.kind == DeviceKind::cpu || !config.machine.gpus().empty()) return out;
  out.machine.executor = "cuda:0";
  for (u32 gpu = 1; gpu < machine->device.count; ++gpu) out.machine.executor += fmt::format(",{}", gpu);
  return out;
}

Result<RunQuestion> question_of(const Config& config, PlanFor who, std::optional<Machine> read) {
  RunQuestion out{.options = {}, .machine = std::move(read)};
  const bool here = who == PlanFor::this_machine;
  if (!out.machine) {
    TRY_ASSIGN(out.machine, machine_of_file(config));
  }
  if (out.machine) {
    const bool file_has_gpus = out.machine->device.kind != DeviceKind::cpu;
    if (here && file_has_gpus == config.machine.gpus().empty())
      return Error{
          ErrorKind::usage,
          fmt::format("machine.file: {} has devices of kind {}, and machine.executor is {}: name the file "
                      "that 'tidepool probe' writes here; 'tidepool plan' plans for other machines",
                      config.machine.file, file_has_gpus ? "cuda" : "cpu", config.machine.executor)};
  }
  if (here || !out.machine || config.memory.budgets.disk != disk_auto) {
    TRY_ASSIGN(const Bytes disk, disk_budget(config));
    out.options = plan_options(config, disk);
  } else {
    out.options = plan_options(config, out.machine->disk.capacity);
  }
  if (!out.machine) return out;
  if (!here) TRY(check_disk(config, *out.machine));
  TRY(check_budgets(out.options, *out.machine));
  return out;
}

Result<RunPlan> plan_run(const Config& config, const ModelGraph& graph, PlanFor who, const PlanTried& tried,
                         std::optional<Machine> read) {
  TRY_ASSIGN(RunQuestion question, question_of(config, who, std::move(read)));
  RunPlan out{.options = question.options, .machine = std::move(question.machine)};
  const auto explain = [&](const Error& error) {
    const bool disk_is_here = who == PlanFor::this_machine || !out.machine;
    return add_alternatives(config, out.options, out.machine,
                            disk_is_here ? explain_disk(config, graph, out.options, error) : error);
  };
  if (!out.machine) {
    Result<Plan> plan = make_plan(graph, out.options);
    if (!plan) return explain(plan.error());
    out.plan = *std::move(plan);
    return out;
  }
  Result<Choice> chosen = choose_plan(graph, out.options, *out.machine, {.tried = tried});
  if (!chosen) return explain(chosen.error());
  Choice choice = *std::move(chosen);
  out.options = choice.options;
  out.plan = std::move(choice.plan);
  out.forecast = std::move(choice.forecast);
  out.candidates = choice.candidates;
  return out;
}

std::vector<std::string> describe_choice(const Config& config, const RunPlan& run) {
  if (!run.forecast) return {};
  std::vector<std::string> notes;
  notes.push_back(fmt::format("chosen by the rates of {} among {} plans: chunks of {}, {} sweep{}, {} a step",
                              config.machine.file, run.candidates,
                              bytes_text(Bytes{4 * run.plan.chunk_elements}), run.plan.sweeps,
                              run.plan.sweeps == 1 ? "" : "s", seconds_text(run.forecast->step_seconds)));
  const bool to_disk = run.plan.tiers[static_cast<u32>(Tier::disk)].planned_peak.value > 0;
  if (to_disk && run.machine->disk == DiskRates{})
    notes.push_back(fmt::format("{} holds no disk: {} read and {} written per second were assumed",
                                config.machine.file,
                                bytes_text(per_second(run.machine->disk.read_bytes_per_s)),
                                bytes_text(per_second(run.machine->disk.write_bytes_per_s))));
  return notes;
}

std::string machine_mismatch(const Config& config, const Machine& file, u32 workers,
                             const std::string& processor) {
  const bool other_cpu = !file.host.name.empty() && !processor.empty() && file.host.name != processor;
  if (!other_cpu && file.host.cores == workers) return "";
  return fmt::format(
      "{} is of {} core{}{}, and this run has {}{}: the plan may be slower than it could be, with the same "
      "results; 'tidepool probe' measures this machine",
      config.machine.file, file.host.cores, file.host.cores == 1 ? "" : "s",
      other_cpu ? " of " + file.host.name : "", workers, other_cpu ? " of " + processor : "");
}

}  // namespace tidepool
