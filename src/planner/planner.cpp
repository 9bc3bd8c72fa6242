#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "planner/attempt.h"
#include "planner/fit.h"
#include "planner/shapes.h"
#include "planner/verify/verify.h"

namespace tidepool {
namespace {

constexpr u32 sweeps_in_vain_max = 3;

Result<void> check_options(const PlanOptions& options) {
  if (options.micro_batches == 0)
    return Error{ErrorKind::usage, "train.gradient_accumulation_steps must be at least 1"};
  if (options.devices == 0 || options.devices > devices_max)
    return Error{ErrorKind::usage,
                 fmt::format("{} devices: 1 to {} are possible", options.devices, devices_max)};
  if (options.nodes == 0 || options.nodes > nodes_max)
    return Error{ErrorKind::usage, fmt::format("{} nodes: 1 to {} are possible", options.nodes, nodes_max)};
  if (options.speculates && (options.nodes > 1 || options.versions == 1))
    return Error{ErrorKind::usage,
                 options.nodes > 1
                     ? "train.speculate: on does not go with several nodes: set auto or off"
                     : "train.speculate: on needs the last committed step: set memory.versions=2"};
  const u32 shares = options.replicas() * options.nodes;
  if (options.micro_batches % shares != 0)
    return Error{ErrorKind::usage,
                 fmt::format("{} micro-batches per step cannot be shared out to {} {} alike",
                             options.micro_batches, shares, options.replicas() > 1 ? "devices" : "nodes")};
  const u32 micro_batches = options.micro_batches_per_replica();
  if (options.sweeps != 0 && micro_batches % options.sweeps != 0)
    return Error{ErrorKind::usage,
                 options.replicas() == options.devices
                     ? fmt::format("memory.sweeps={} does not divide train.gradient_accumulation_steps={}",
                                   options.sweeps, micro_batches)
                     : fmt::format("memory.sweeps={} does not divide the {} micro-batches of a step on all "
                                   "devices together",
                                   options.sweeps, micro_batches)};
  return {};
}

// RETURNS: the first attempt that fits: fewest sweeps first, then the largest chunks.
std::optional<Attempt> usual_attempt(const ModelGraph& graph, const PlanOptions& options) {
  std::optional<Attempt> best;
  u64 least = ~u64{0};  // shortfall, over all counts of sweeps
  u32 in_vain = 0;      // counts of sweeps without a gain since then
  for (u32 sweeps : sweeps_to_try(options)) {
    u64 short_by = ~u64{0};
    for (u64 elements : chunk_elements_to_try(graph, options)) {
      Attempt a = attempt(graph, options, {.sweeps = sweeps, .chunk_elements = elements});
      if (a.fits) return a;
      const u64 now_short_by = shortfall(options, a);
      if (!best || now_short_by < shortfall(options, *best)) best = std::move(a);
      // All smaller sizes together can still save about as much as the last halving did.
      if (short_by != ~u64{0} && 4 * (short_by - std::min(short_by, now_short_by)) < now_short_by) break;
      short_by = now_short_by;
    }
    // More sweeps need less room for activations, and more for gradients that wait in between. Past the
    // optimum they only take longer to plan: 64 sweeps of 1200 chunk sets took 15 s, without result.
    const u64 so_far = shortfall(options, *best);
    in_vain = so_far < least ? 0 : in_vain + 1;
    if (in_vain == sweeps_in_vain_max) break;
    least = so_far;
  }
  return std::nullopt;
}

Result<void> check_is_possible(const ModelGraph& graph, const PlanOptions& options) {
  TRY(check_options(options));
  if (options.nodes > 1 && options.home == HomePolicy::device && trains(graph))
    return Error{ErrorKind::usage,
                 "memory.home: device does not go with several nodes: gradients and updated parameters pass "
                 "through the host, so what is trained rests there or on disk. Set host, disk or auto"};
  return check_plan_size(graph, options, chunk_elements_to_try(graph, options).front());
}

Error refusal(Fit& fit, const PlanOptions& options, const SearchWork* work) {
  if (work != nullptr && work->cut)
    return {ErrorKind::does_not_fit, "no plan that fits was found before the search was cut short"};
  if (!options.advise) return {ErrorKind::does_not_fit, "the job does not fit"};
  return does_not_fit(fit, options);
}

}  // namespace

// A table that rests on the device, because the user wants that, does not travel at all. Wider rows do not
// pass through the buffer that they are read into.
bool looks_up(const ModelGraph& graph, const PlanOptions& options) {
  const u32 table = lookup_window(graph);
  if (table == none || options.home == HomePolicy::device || options.lookup == LookupPolicy::off)
    return false;
  if (graph.batch.pieces() > 1) return false;  // rows are those of a whole micro-batch
  const Window& window = graph.windows[table];
  if (values_bytes(window.tensors[0].shape[1], graph.precision) > looked_up_row_bytes_max) return false;
  const Bytes bytes{values_bytes(window.elements, graph.precision)};
  return options.lookup == LookupPolicy::on || bytes > Bytes{options.budgets.device.value / 2};
}

bool SearchWork::takes(u64 more) {
  if (ops != 0 && ops + more > ops_max) {
    cut = true;
    return false;
  }
  ops += more;
  return true;
}

namespace {

// RETURNS: options with which rows of the model's table travel, if that is left open and is not so anyway.
std::optional<PlanOptions> with_rows(const ModelGraph& graph, PlanOptions options) {
  if (options.lookup != LookupPolicy::automatic || looks_up(graph, options)) return std::nullopt;
  options.lookup = LookupPolicy::on, options.advise = false;
  return looks_up(graph, options) ? std::optional(options) : std::nullopt;
}

}  // namespace

Result<void> check_fits(const ModelGraph& graph, const PlanOptions& options, SearchWork* work) {
  TRY(check_is_possible(graph, options));
  Fit fit(graph, options);
  if (fit.within(options.budgets, work)) return {};
  if (const auto rows = with_rows(graph, options); rows && check_fits(graph, *rows, work)) return {};
  return refusal(fit, options, work);
}

std::optional<Budgets> least_budgets(const ModelGraph& graph, const PlanOptions& options, const Budgets& most,
                                     SearchWork* work) {
  PlanOptions larger = options;
  larger.budgets = most;
  if (!check_is_possible(graph, larger)) return std::nullopt;
  return Fit(graph, options).nearest(options.budgets, most, work);
}

Result<Plan> draft_plan(const ModelGraph& graph, const PlanOptions& options) {
  TRY(check_is_possible(graph, options));
  Fit fit(graph, options);
  const std::optional<TierCandidate> candidate = fit.within(options.budgets);
  if (!candidate) {
    if (const auto rows = with_rows(graph, options))
      if (Result<Plan> plan = draft_plan(graph, *rows)) return plan;
    return refusal(fit, options, nullptr);
  }
  std::optional<Attempt> usual = usual_attempt(graph, options);
  return plan_of(graph, options, usual ? *std::move(usual) : attempt_candidate(graph, options, *candidate));
}

std::optional<Plan> draft_variation(const ModelGraph& graph, const PlanOptions& options) {
  if (!check_is_possible(graph, options)) return std::nullopt;
  std::optional<Attempt> usual = usual_attempt(graph, options);
  if (!usual) return std::nullopt;
  return plan_of(graph, options, *std::move(usual));
}

Result<Plan> make_plan(const ModelGraph& graph, const PlanOptions& options) {
  TRY_ASSIGN(Plan plan, draft_plan(graph, options));
  TRY(verify_plan(plan, graph));
  return plan;
}

}  // namespace tidepool
