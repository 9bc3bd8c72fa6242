#include "planner/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/budget_text.h"

namespace tidepool {
namespace {

// Raises what is short to what is needed, as it will be written in a config.
Budgets raised(const Budgets& budgets, const Attempt& a) {
  const auto raise = [](Bytes budget, Bytes need) {
    const u64 unit = need.value < 16 * mib ? kib : mib;
    return need > budget ? Bytes{round_up(need.value, unit)} : budget;
  };
  return {raise(budgets.device, a.need[0]), raise(budgets.host, a.need[1]), raise(budgets.disk, a.need[2])};
}

Bytes sum_of(const ModelGraph& graph, std::initializer_list<Kind> kinds) {
  Bytes sum{};
  for (const Window& window : graph.windows)
    for (const Kind kind : kinds)
      if (kind != Kind::master_low || graph.precision == Precision::bf16)
        sum += Bytes{window.elements * element_bytes(kind, graph.precision)};
  return sum;
}

// What must rest somewhere, whatever is chosen: every persistent chunk once, in the tier that was asked for,
// and with clipping every gradient while the last of them awaits the norm.
bool has_no_room(const ModelGraph& graph, const PlanOptions& options) {
  const Budgets& budgets = options.budgets;
  const Bytes devices = budgets.device * options.devices;
  Bytes state = sum_of(graph, {Kind::param});
  if (trains(graph)) state += sum_of(graph, {Kind::master_low, Kind::momentum, Kind::variance});
  const Bytes gradients = trains(graph) && options.clipping ? sum_of(graph, {Kind::grad}) : Bytes{0};
  if (state + gradients > devices + budgets.host + budgets.disk) return true;
  return (options.home == HomePolicy::device && state > devices) ||
         (options.home == HomePolicy::host && state > budgets.host) ||
         (options.home == HomePolicy::disk && state > budgets.disk);
}

}  // namespace

Error does_not_fit(const ModelGraph& graph, const PlanOptions& options, const Attempt& best) {
  constexpr u32 rounds_max = 16;
  PlanOptions larger = options;
  larger.budgets = raised(options.budgets, best);
  for (u32 i = 0; i < rounds_max; ++i) {
    const Attempt a = attempt(graph, larger, best.options);
    if (a.fits) break;
    larger.budgets = raised(larger.budgets, a);
  }
  std::string message = "the job does not fit:";
  for (u32 t = 0; t < tier_count; ++t) {
    const Tier tier = static_cast<Tier>(t);
    const Bytes budget = options.budgets.of(tier), need = larger.budgets.of(tier);
    if (need <= budget) continue;
    message +=
        fmt::format(" {} {}: set memory.{}={};", name(tier), shortage_text(need, budget), name(tier),
                    budget_text(need));
  }
  message +=
      " or use a shorter train.sequence_length, a smaller train.per_device_train_batch_size, or a smaller "
      "model";
  return {ErrorKind::does_not_fit, std::move(message)};
}

std::optional<Error> too_large(const ModelGraph& graph, const PlanOptions& options) {
  const Budgets& budgets = options.budgets;
  constexpr Bytes unlimited{~u64{0} / 2};
  if (budgets.disk >= unlimited || !has_no_room(graph, options)) return std::nullopt;
  Error error{ErrorKind::does_not_fit, "the job does not fit"};
  if (!options.advise) return error;
  PlanOptions with_disk = options;
  with_disk.budgets.disk = unlimited;
  with_disk.advise = false;
  const Result<Plan> plan = draft_plan(graph, with_disk);
  if (!plan) return std::nullopt;  // something else is short as well: the long way
  const Bytes need = plan->tiers[static_cast<u32>(Tier::disk)].planned_peak;
  if (need <= budgets.disk) return std::nullopt;
  error.message += fmt::format(
      ": disk {}: set memory.disk={}; or use a smaller model", shortage_text(need, budgets.disk),
      budget_text(need));
  return error;
}

}  // namespace tidepool
