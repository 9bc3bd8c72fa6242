#include "planner/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/plan_size.h"
#include "text/budget_text.h"
#include "text/change_text.h"

namespace tidepool {
namespace {

constexpr Bytes unlimited{~u64{0} / 2};

// Raises what is short to what is needed.
Budgets raised(const Budgets& budgets, const Attempt& a) {
  const auto raise = [](Bytes budget, Bytes need) { return need > budget ? written_above(need) : budget; };
  return {raise(budgets.device, a.need[0]), raise(budgets.host, a.need[1]), raise(budgets.disk, a.need[2])};
}

Bytes sum_of(const ModelGraph& graph, std::initializer_list<Kind> kinds) {
  Bytes sum{};
  for (const Window& window : graph.windows)
    for (const Kind kind : kinds)
      if (kind == Kind::param ||
          (window.trainable && (has_kind(graph.precision, kind) || kind == Kind::grad)))
        sum += Bytes{window.elements * element_bytes(kind, graph.precision)};
  return sum;
}

// What must rest somewhere, whatever is chosen: every persistent chunk once, in the tier that was asked for,
// and with clipping every gradient while the last of them awaits the norm, unless in the bytes of a dead
// parameter.
bool has_no_room(const ModelGraph& graph, const PlanOptions& options) {
  const Budgets& budgets = options.budgets;
  const Bytes devices = budgets.device * options.devices;
  const Bytes state =
      sum_of(graph, {Kind::param, Kind::master, Kind::master_low, Kind::momentum, Kind::variance});
  const bool in_dead_params = made_by_update(Kind::param, graph.precision);
  const Bytes gradients =
      updates_wait(graph, options) && !in_dead_params ? sum_of(graph, {Kind::grad}) : Bytes{0};
  if (state + gradients > devices + budgets.host + budgets.disk) return true;
  return (options.home == HomePolicy::device && state > devices) ||
         (options.home == HomePolicy::host && state > budgets.host) ||
         (options.home == HomePolicy::disk && state > budgets.disk);
}

// Counted and not timed: the same job gets the same advice on any machine. Attempts at models of thousands of
// chunk sets take a second each, and their advice is less exact.
u32 attempts_per_tier(u64 ops) {
  constexpr u64 work_max = 200'000, attempts_max = 12;
  return static_cast<u32>(std::clamp<u64>(work_max / std::max<u64>(ops, 1), 2, attempts_max));
}

// Says what is short, and advises what is larger than it was.
Error shortage(const PlanOptions& options, const Budgets& larger) {
  const Budgets& had = options.budgets;
  Error error{ErrorKind::does_not_fit, "the job does not fit:"};
  Change advice;
  for (const Tier tier : all_tiers) {
    const Bytes budget = had.of(tier), need = larger.of(tier);
    if (need <= budget) continue;
    advice.settings.push_back(budget_setting(tier, need));
    error.message += fmt::format("{} {} {}{}: set {}", error.message.back() == ':' ? "" : ";", name(tier),
                                 shortage_text(need, budget),
                                 reserved_text(tier == Tier::device ? options.device_reserved : Bytes{0}),
                                 setting_text(advice.settings.back()));
  }
  error.changes = {std::move(advice)};
  return error;
}

// What fits with one count of sweeps and one chunk size, the search for a plan may pass by: a little more
// then, until it does not.
void confirm(const ModelGraph& graph, const Budgets& had, PlanOptions& larger) {
  constexpr u32 rounds_max = 24;
  larger.advise = false;
  for (u32 i = 0; i < rounds_max && !check_fits(graph, larger); ++i)
    raise_a_little(had, {unlimited, unlimited, unlimited}, larger.budgets);
}

}  // namespace

// What a tier is said to need was counted while others were as small as they had been, and one that has room
// to spare is filled first.
void lower_again(const ModelGraph& graph, const Budgets& had, const AttemptOptions& with, u64 ops,
                 PlanOptions& larger, SearchWork* work) {
  constexpr u64 exact_to = 64;  // 1 in 64
  const u32 attempts = attempts_per_tier(ops);
  const u64 ops_counted = plan_size(graph, larger, with.chunk_elements).ops();  // as SearchWork does
  larger.advise = false;  // what is short by how much is not asked for
  for (const Tier tier : all_tiers) {
    Bytes too_little = had.of(tier);
    for (u32 i = 0; i < attempts; ++i) {
      const Bytes enough = larger.budgets.of(tier);
      if (enough <= too_little || (enough - too_little).value <= enough.value / exact_to) break;
      const Bytes between = written_above(too_little + Bytes{(enough - too_little).value / 2});
      if (between >= enough) break;
      PlanOptions tried = larger;
      tried.budgets.of(tier) = between;
      if (work) work->ops += ops_counted;
      if (attempt(graph, tried, with).fits)
        larger = tried;
      else
        too_little = between;
    }
  }
}

bool raise_a_little(const Budgets& had, const Budgets& most, Budgets& larger) {
  constexpr u64 part = 24;  // of a budget
  const Budgets before = larger;
  for (const Tier tier : all_tiers) {
    const Bytes budget = before.of(tier);
    if (budget > had.of(tier))
      larger.of(tier) = std::min(most.of(tier), written_above(budget + Bytes{budget.value / part}));
  }
  return larger != before;
}

Error does_not_fit(const ModelGraph& graph, const PlanOptions& options, const Attempt& best) {
  constexpr u32 rounds_max = 16;
  PlanOptions larger = options;
  larger.budgets = raised(options.budgets, best);
  bool fits = false;
  for (u32 i = 0; i < rounds_max && !fits; ++i) {
    const Attempt a = attempt(graph, larger, best.options);
    fits = a.fits;
    larger.budgets = raised(larger.budgets, a);
  }
  if (fits) lower_again(graph, options.budgets, best.options, best.program.ops.size(), larger);
  confirm(graph, options.budgets, larger);
  return shortage(options, larger.budgets);
}

std::optional<Error> too_large(const ModelGraph& graph, const PlanOptions& options) {
  const Budgets& budgets = options.budgets;
  if (budgets.disk >= unlimited || !has_no_room(graph, options)) return std::nullopt;
  if (!options.advise) return Error{ErrorKind::does_not_fit, "the job does not fit"};
  PlanOptions with_disk = options;
  with_disk.budgets.disk = unlimited;
  with_disk.advise = false;
  const Result<Plan> plan = draft_plan(graph, with_disk);
  if (!plan) return std::nullopt;  // something else is short as well: the long way
  const Bytes whole = plan->tiers[static_cast<u32>(Tier::disk)].planned_peak;
  if (whole <= budgets.disk) return std::nullopt;
  with_disk.budgets.disk = written_above(whole);
  u64 ops = 0;
  for (const Segment& segment : plan->segments) ops += segment.ops.size();
  lower_again(graph, budgets, {.sweeps = plan->sweeps, .chunk_elements = plan->chunk_elements}, ops,
              with_disk);
  return shortage(options, with_disk.budgets);
}

}  // namespace tidepool
