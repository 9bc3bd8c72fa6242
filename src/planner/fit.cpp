#include "planner/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/budget_text.h"
#include "planner/advice/change_text.h"
#include "planner/shapes.h"
#include "tidepool/slot_range.h"
#include "tidepool/update_units.h"

namespace tidepool {
namespace {

PlanOptions as_planned(const ModelGraph& graph, PlanOptions options) {
  options.clipping = updates_wait(graph, options);
  return options;
}

Bytes bytes_of(const ModelGraph& graph, const Window& window, Kind kind) {
  Bytes sum{};
  for (const UpdateUnit& unit : update_units(graph, window))
    if (graph.state_slots.has(unit.rule, kind))
      sum += Bytes{graph.state_slots.chunk_bytes(
          kind, slot_range(window, graph.state_slots.axis(kind), unit.begin, unit.end()).elements)};
  return sum;
}

Bytes parameters_of(const ModelGraph& graph) {
  Bytes sum{};
  for (const Window& window : graph.windows) sum += bytes_of(graph, window, Kind::param);
  return sum;
}

// Bytes of a kind that only trained windows have.
Bytes trained_sum_of(const ModelGraph& graph, Kind kind) {
  Bytes sum{};
  for (const Window& window : graph.windows)
    if (window.trainable) sum += bytes_of(graph, window, kind);
  return sum;
}

// Least bytes of a device: while one block runs, it holds the block's parameters (in whichever tier they
// rest), the sums of their gradients, and the workspace. An embedding's backward needs no parameters, and a
// table whose rows are looked up does not come up.
Bytes device_least(const ModelGraph& graph, const PlanOptions& options) {
  const u32 table = looks_up(graph, options) ? lookup_window(graph) : none;
  Bytes most{};
  for (const Block& block : graph.blocks) {
    Bytes params{}, sums{};
    for (const u32 w : block.windows) {
      const Window& window = graph.windows[w];
      if (w != table) params += bytes_of(graph, window, Kind::param);
      if (window.trainable) sums += bytes_of(graph, window, Kind::grad_accum);
    }
    most = std::max(most, block.kind == BlockKind::embedding ? std::max(params, sums) : params + sums);
  }
  return most + largest_workspace(graph) + largest_past(graph) + options.device_reserved;
}

// Least bytes of a node's state. Every node holds all parameters; of the rest it may own next to nothing.
Bytes state_of(const ModelGraph& graph, const PlanOptions& options) {
  Bytes state = parameters_of(graph);
  if (options.nodes == 1) graph.state_slots.each([&](Kind slot) { state += trained_sum_of(graph, slot); });
  return state;
}

// Bytes of a micro-batch's streams that backward reads from forward.
Bytes saved_for_backward(const ModelGraph& graph) {
  std::vector<bool> saved(graph.streams.size(), false);
  for (u32 b = last_backward_block(graph); trains(graph) && b < graph.blocks.size(); ++b)
    for (const StreamUse& use : graph.blocks[b].backward_streams)
      saved[use.stream] = !is_gradient_stream(graph.streams[use.stream].kind);
  Bytes sum{};
  for (u32 s = 0; s < saved.size(); ++s)
    if (saved[s]) sum += graph.streams[s].bytes * (graph.streams[s].whole ? 1 : graph.batch.pieces());
  return sum;
}

// Least bytes of all tiers together: the state, and beside it, at the end of a forward, the streams for
// backward; between two sweeps, the sums of every window of every replica.
Bytes held_at_once(const ModelGraph& graph, const PlanOptions& options, u32 sweeps) {
  const Bytes streams = saved_for_backward(graph) * (options.micro_batches / options.nodes / sweeps);
  const Bytes sums = trained_sum_of(graph, Kind::grad_accum);
  return state_of(graph, options) + std::max(streams, sweeps > 1 ? sums * options.replicas() : Bytes{0});
}

// More than any machine has, but small enough that sums over tiers and devices do not overflow.
Budgets summable(const Budgets& budgets) {
  constexpr Bytes most{u64{1} << 52};
  return {std::min(budgets.device, most), std::min(budgets.host, most), std::min(budgets.disk, most)};
}

constexpr Bytes unlimited{u64{1} << 60};

// Counted in ops, not timed: the same job gets the same advice on any machine. It takes some 5 s.
constexpr u64 advice_ops_max = 800'000;

// Says which tiers are short, and advises the budgets of `larger` that exceed the old ones.
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

}  // namespace

Fit::Fit(const ModelGraph& graph, const PlanOptions& options)
    : graph_(graph), options_(as_planned(graph, options)) {
  const Bytes least = device_least(graph, options_);
  for (const u32 sweeps : sweeps_to_try(options_))
    for (const u64 elements : candidate_chunk_elements(graph, options_))
      shapes_.push_back({FitShape(graph, options_, {.sweeps = sweeps, .chunk_elements = elements}, least),
                         held_at_once(graph, options_, sweeps)});
}

// Compares the budgets with the bytes that must rest somewhere in any plan: every persistent chunk once, in
// the tier that was asked for; and with clipping every gradient, while the last of them waits for the norm.
// Gradients that wait in the bytes of dead parameters are not counted.
bool Fit::has_no_room(const Budgets& budgets) const {
  const Bytes devices = budgets.device * options_.devices;
  const Bytes state = state_of(graph_, options_);
  const bool in_dead_params = made_by_update(Kind::param, graph_.precision);
  const Bytes gradients = options_.clipping && !in_dead_params && options_.nodes == 1
                              ? trained_sum_of(graph_, Kind::grad)
                              : Bytes{0};
  if (state + gradients > devices + budgets.host + budgets.disk) return true;
  return (options_.home == HomePolicy::device && state > devices) ||
         (options_.home == HomePolicy::host && state > budgets.host) ||
         (options_.home == HomePolicy::disk && state > budgets.disk);
}

void Fit::search(FitSearch& s, SearchWork* work) {
  const Bytes most = s.most.device * options_.devices + s.most.host + s.most.disk;
  for (auto& [shape, held] : shapes_) {
    if (s.is_done() || (work != nullptr && work->cut)) return;
    if (held <= most) shape.search(s, work);
  }
}

std::optional<TierCandidate> Fit::within(const Budgets& given, SearchWork* work) {
  const Budgets budgets = summable(given);
  if (has_no_room(budgets)) return std::nullopt;
  FitSearch s{.had = budgets, .most = budgets};
  search(s, work);
  if (!s.needs) return std::nullopt;
  return s.candidate;
}

std::optional<Budgets> Fit::nearest(const Budgets& had, const Budgets& given, SearchWork* work) {
  const Budgets most = summable(given);
  FitSearch s{.had = had, .most = most};
  search(s, work);
  if (!s.needs) return std::nullopt;
  Budgets larger = had;
  for (const Tier tier : all_tiers)
    if (const Bytes need = s.needs->of(tier); need > had.of(tier))
      larger.of(tier) = std::max(need, std::min(written_above(need), most.of(tier)));
  return larger;
}

Error does_not_fit(Fit& fit, const PlanOptions& options) {
  SearchWork work{.ops_max = advice_ops_max};
  const std::optional<Budgets> larger =
      fit.nearest(options.budgets, {unlimited, unlimited, unlimited}, &work);
  if (!larger) return {ErrorKind::does_not_fit, "the job does not fit"};
  return shortage(options, *larger);
}

}  // namespace tidepool
