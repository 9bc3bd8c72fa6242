// plan_run() checks budgets and devices against the machine, then plans by bytes or by predicted time.
#include "fit/plan_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text/budget_text.h"
#include "base/text/units.h"
#include "fit/alternatives.h"
#include "fit/budget_room.h"
#include "fit/disk_budget.h"
#include "fit/executor_choice.h"
#include "machine/machine_file.h"
#include "machine/machine_of_gpus.h"
#include "planner/advice/change_text.h"

namespace tidepool {
namespace {

Result<void> check_budget(const Budgets& budgets, const BudgetRoom& room, Tier tier) {
  const std::optional<Bytes> has = room.of(tier);
  if (!has || budgets.of(tier) <= *has) return {};
  return Error{
      ErrorKind::does_not_fit,
      fmt::format("memory.{}={} is more than {} has ({}): set memory.{} to the part that training may use",
                  name(tier), bytes_text(budgets.of(tier)), room.machine, bytes_text(*has), name(tier))};
}

// Without a disk in the machine file the rates, and so the plan, would be invented.
Result<void> check_disk(const Config& config, const Budgets& budgets, const BudgetRoom& room) {
  if (room.disk != Bytes{0} || budgets.disk.value == 0) return check_budget(budgets, room, Tier::disk);
  return Error{
      ErrorKind::usage,
      fmt::format("memory.disk={}, but {} has no disk: give the file a section 'disk' with capacity, "
                  "read and write, or set memory.disk=0",
                  bytes_text(budgets.disk), config.machine.file)};
}

// On a CPU the device arenas lie in the host's memory.
Result<void> check_shared_memory(const Budgets& budgets, const BudgetRoom& room) {
  if (room.takes_together(budgets)) return {};
  if (room.is_gpu) {
    const Bytes most = *room.most({.host = budgets.host}, Tier::device);
    return Error{ErrorKind::does_not_fit,
                 fmt::format("{}: {}", shared_memory_text(room, budgets),
                             most.value > 0 ? "set memory.device to at most " + budget_text(most)
                                            : "lower memory.host, or use a card with more memory")};
  }
  return Error{ErrorKind::does_not_fit,
               fmt::format("{}: lower memory.device or memory.host{}", shared_memory_text(room, budgets),
                           room.devices == 1 ? "" : ", or name fewer devices in machine.executor")};
}

Result<void> check_budgets(const Config& config, const Budgets& budgets, const BudgetRoom& room) {
  TRY(check_disk(config, budgets, room));
  if (!room.is_gpu) TRY(check_budget(budgets, room, Tier::device));  // on a GPU more than the budget counts
  TRY(check_budget(budgets, room, Tier::host));
  return check_shared_memory(budgets, room);
}

std::string gpus_up_to(u32 count) {
  std::string executor = "cuda:0";
  for (u32 gpu = 1; gpu < count; ++gpu) executor += fmt::format(",{}", gpu);
  return executor;
}

Setting executor_of(std::string value) { return {"machine.executor", std::move(value)}; }

bool takes_all(const Machine& machine) { return machine.device.count <= devices_max; }

// Executor with all of the machine's GPUs, or as many as a run may use.
Setting executor_for(const Machine& machine) {
  if (machine.device.kind == DeviceKind::cpu) return executor_of("cpu");
  if (machine.device.count == 1) return executor_of("cuda:0");
  return executor_of(takes_all(machine) ? "auto" : gpus_up_to(devices_max));
}

// `train` computes on the devices here: the machine file must be of the same kind, and only gives rates.
Result<void> check_kind_is_here(const Config& config, const Machine& machine) {
  const bool file_has_gpus = machine.device.kind != DeviceKind::cpu;
  if (file_has_gpus != config.machine.gpus().empty()) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("machine.file: {} has devices of kind {}, but machine.executor is {}: name the file "
                  "that 'tidepool probe' writes here; 'tidepool plan' plans for other machines",
                  config.machine.file, file_has_gpus ? "cuda" : "cpu", config.machine.executor)};
}

// cpu contradicts no file: it is the default, and whether the user wrote it is not known.
Result<void> check_kind_is_meant(const Config& config, const Machine& machine) {
  const bool file_has_gpus = machine.device.kind != DeviceKind::cpu,
             asks_for_gpus = !config.machine.gpus().empty();
  if (file_has_gpus == asks_for_gpus || (file_has_gpus && config.machine.devices() == 1)) return {};
  const Setting mended = executor_for(machine);
  const char* const others = !file_has_gpus              ? ", or cpu:N for N devices made of its cores"
                             : machine.device.count == 1 ? ""
                             : takes_all(machine)        ? " for all of its GPUs, cuda:0,1,... for some"
                                                         : ", or other GPUs of the file";
  return Error{
      ErrorKind::usage,
      fmt::format("machine.executor={}, but {} has devices of kind {}: write {}{}, or name a machine "
                  "file of kind {}",
                  config.machine.executor, config.machine.file, file_has_gpus ? "cuda" : "cpu",
                  setting_text(mended), others, asks_for_gpus ? "cuda" : "cpu"),
      {Change{{mended}, ""}}};
}

Result<void> check_gpus_are_there(const Config& config, const Machine& machine) {
  const std::vector<u32> gpus = config.machine.gpus();
  const u32 count = machine.device.count;
  if (gpus.empty() || std::ranges::max(gpus) < count) return {};
  const Setting mended = executor_for(machine);
  std::string what_to_do = fmt::format("write {}", setting_text(mended));
  if (count > 1)
    what_to_do = fmt::format("name GPUs from 0 to {}, or {}{}", count - 1, what_to_do,
                             takes_all(machine) ? " for all of them" : "");
  return Error{
      ErrorKind::usage,
      fmt::format("machine.executor={} names GPU {}, but {} has {} (device.count), counted from 0: {}",
                  config.machine.executor, std::ranges::max(gpus), config.machine.file, count, what_to_do),
      {Change{{mended}, ""}}};
}

// If the executor names no GPUs, all of the file's GPUs are used.
Result<void> check_not_too_many(const Config& config, const Machine& machine) {
  const DeviceRates& device = machine.device;
  if (device.kind == DeviceKind::cpu || device.count <= devices_max || !config.machine.gpus().empty())
    return {};
  const Setting mended = executor_for(machine);
  return Error{
      ErrorKind::usage,
      fmt::format("{} has {} devices (device.count), but a run takes at most {}: write {}, or name other "
                  "GPUs of the file",
                  config.machine.file, device.count, devices_max, setting_text(mended)),
      {Change{{mended}, ""}}};
}

Result<void> check_devices(const Config& config, const Machine& machine, PlanFor who) {
  if (is_for_this_machine(who)) return check_kind_is_here(config, machine);
  TRY(check_kind_is_meant(config, machine));
  TRY(check_not_too_many(config, machine));
  return check_gpus_are_there(config, machine);
}

// Chooses the faster of data and layers over devices, if the config leaves that open. `other`: seconds of a
// step in the other mode.
Result<Choice> choose(const Job& job, const PlanOptions& options, const Machine& machine, PlanFor who,
                      const PlanTried& tried, double& other) {
  const Config& config = job.config;
  const ModelGraph& graph = job.graph;
  if (config.machine.parallel != Parallel::automatic || options.devices == 1)
    return choose_plan(graph, options, machine, {.tried = tried});
  PlanOptions with_layers = options;
  with_layers.parallel = Parallel::layers;
  if (is_for_this_machine(who) && !may_exchange(config))
    return choose_plan(graph, with_layers, machine, {.tried = tried});
  Result<Choice> data = choose_plan(graph, options, machine, {.tried = tried});
  const u32 before = data ? data->candidates : 0;
  const auto tried_more = [&](u32 candidates, double seconds) {
    if (tried) tried(before + candidates, seconds);
  };
  with_layers.advise = false;  // if neither fits, the advice is that of data
  Result<Choice> layers = choose_plan(graph, with_layers, machine, {.tried = tried_more});
  if (!layers) return data;
  const u32 all = before + layers->candidates;
  const bool take_layers = !data || layers->forecast.step_seconds < data->forecast.step_seconds;
  if (data) other = (take_layers ? data : layers)->forecast.step_seconds;
  Result<Choice> best = take_layers ? std::move(layers) : std::move(data);
  best->options.advise = options.advise;
  best->candidates = all;
  return best;
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
  std::string& executor = out.machine.executor;
  if (!machine || !config.machine.gpus().empty()) return out;
  if (executor == "auto") executor = "cpu";
  const DeviceRates& device = machine->device;
  // question_of() refuses these.
  const bool is_refused = config.machine.devices() > 1 || device.count > devices_max;
  if (device.kind == DeviceKind::cpu || is_refused) return out;
  executor = gpus_up_to(device.count);
  return out;
}

Result<RunQuestion> question_of(const Job& job, PlanFor who, std::optional<Machine> read) {
  const Config& config = job.config;
  RunQuestion out{.options = job.options, .machine = std::move(read)};
  const bool here = is_for_this_machine(who);
  if (!out.machine) {
    TRY_ASSIGN(out.machine, machine_of_file(config));
  }
  if (out.machine) TRY(check_devices(config, *out.machine, who));
  if (here || !out.machine || config.memory.budgets.disk != disk_auto) {
    TRY_ASSIGN(out.options.budgets.disk, disk_budget(config));
  } else {
    out.options.budgets.disk = out.machine->disk.capacity;
  }
  if (out.options.speculates && scale_is_late(config))
    return Error{
        ErrorKind::usage,
        "train.speculate: on does not go with fp16 on a GPU, where the loss scale is known too late: "
        "set auto or off, or train.precision=bf16"};
  if (!here && out.machine) {  // `train` learns from its launcher how many nodes there are
    out.options.nodes = out.machine->network.nodes;
    out.options.micro_batches *= out.options.nodes;
  }
  if (!out.machine && config.machine.parallel == Parallel::automatic && out.options.devices > 1)
    return Error{ErrorKind::usage,
                 "machine.parallel: auto compares predicted times, so it needs the machine's rates: set "
                 "machine.file (tidepool probe writes one), or set data or layers"};
  if (!out.machine) return out;
  TRY(check_budgets(config, out.options.budgets, room_of(*out.machine, who, out.options.devices)));
  out.machine = machine_of_gpus(*std::move(out.machine), config.machine.gpus());
  return out;
}

Result<RunPlan> plan_run(const Job& job, PlanFor who, const PlanProgress& progress,
                         std::optional<Machine> read) {
  TRY_ASSIGN(RunQuestion question, question_of(job, who, std::move(read)));
  RunPlan out{.asked = question.options, .options = question.options, .machine = std::move(question.machine)};
  const auto explain = [&](const Error& error) {
    const bool disk_is_here = is_for_this_machine(who) || !out.machine;
    const BudgetRoom room = out.machine ? room_of(*out.machine, who, out.options.devices) : BudgetRoom{};
    return add_alternatives(job, out.options, room,
                            disk_is_here ? explain_disk(job, out.options, error) : error,
                            {.resumes = who == PlanFor::resumed_run, .trying = progress.trying_change});
  };
  if (!out.machine) {
    Result<Plan> plan = make_plan(job.graph, out.options);
    if (!plan) return explain(plan.error());
    out.plan = *std::move(plan);
    return out;
  }
  Result<Choice> chosen =
      choose(job, out.options, *out.machine, who, progress.tried, out.other_parallel_seconds);
  if (!chosen) return explain(chosen.error());
  Choice choice = *std::move(chosen);
  out.options = choice.options;
  out.asked.parallel = choice.options.parallel;
  out.plan = std::move(choice.plan);
  out.forecast = std::move(choice.forecast);
  out.candidates = choice.candidates;
  return out;
}

std::string plan_text(const Config& config, const Plan& plan) {
  std::string text = to_text(plan);
  if (config.memory.budgets.disk != disk_auto) return text;
  const std::string budget =
      fmt::format("disk budget {}", plan.tiers[static_cast<u32>(Tier::disk)].budget.value);
  const u64 at = text.find(budget);
  CHECK(at != std::string::npos, budget);
  return text.replace(at, budget.size(), "disk budget auto");
}

std::string parallel_text(const RunPlan& run) {
  if (run.other_parallel_seconds == 0) return {};
  const bool layers = run.plan.parallel == Parallel::layers;
  return fmt::format(", {} over devices ({}: {} a step)", name(run.plan.parallel),
                     name(layers ? Parallel::data : Parallel::layers),
                     seconds_text(run.other_parallel_seconds));
}

std::vector<std::string> describe_choice(const Config& config, const RunPlan& run) {
  if (!run.forecast) return {};
  std::vector<std::string> notes;
  notes.push_back(fmt::format(
      "chosen by the rates of {} among {} plans: chunks of {}, {} sweep{}{}, {} a step", config.machine.file,
      run.candidates, bytes_text(Bytes{4 * run.plan.chunk_elements}), run.plan.sweeps,
      run.plan.sweeps == 1 ? "" : "s", parallel_text(run), seconds_text(run.forecast->step_seconds)));
  const bool to_disk = run.plan.tiers[static_cast<u32>(Tier::disk)].planned_peak.value > 0;
  if (to_disk && !has_disk(*run.machine))
    notes.push_back(fmt::format("{} has no disk: assuming {} read and {} written per second",
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
      "{} describes {} core{}{}, but this run has {}{}: the plan may be slower than necessary, with the same "
      "results; 'tidepool probe' measures this machine",
      config.machine.file, file.host.cores, file.host.cores == 1 ? "" : "s",
      other_cpu ? " of " + file.host.name : "", workers, other_cpu ? " of " + processor : "");
}

}  // namespace tidepool
