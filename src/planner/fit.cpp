#include "planner/fit.h"

#include <algorithm>
#include <initializer_list>

#include "planner/shapes.h"
#include "text/budget_text.h"

namespace tidepool {
namespace {

PlanOptions as_planned(const ModelGraph& graph, PlanOptions options) {
  options.clipping = updates_wait(graph, options);
  return options;
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

}  // namespace

Fit::Fit(const ModelGraph& graph, const PlanOptions& options)
    : graph_(graph), options_(as_planned(graph, options)) {
  for (const u32 sweeps : sweeps_to_try(options_))
    for (const u64 elements : chunk_elements_of_ways(graph, options_))
      shapes_.emplace_back(graph, options_, AttemptOptions{.sweeps = sweeps, .chunk_elements = elements});
}

// What must rest somewhere, whatever is chosen: every persistent chunk once, in the tier that was asked for,
// and with clipping every gradient while the last of them awaits the norm, unless in the bytes of a dead
// parameter.
bool Fit::has_no_room(const Budgets& budgets) const {
  const Bytes devices = budgets.device * options_.devices;
  const Bytes state =
      sum_of(graph_, {Kind::param, Kind::master, Kind::master_low, Kind::momentum, Kind::variance});
  const bool in_dead_params = made_by_update(Kind::param, graph_.precision);
  const Bytes gradients = options_.clipping && !in_dead_params ? sum_of(graph_, {Kind::grad}) : Bytes{0};
  if (state + gradients > devices + budgets.host + budgets.disk) return true;
  return (options_.home == HomePolicy::device && state > devices) ||
         (options_.home == HomePolicy::host && state > budgets.host) ||
         (options_.home == HomePolicy::disk && state > budgets.disk);
}

void Fit::search(FitSearch& s, SearchWork* work) {
  for (FitShape& shape : shapes_) {
    if (s.is_done() || (work != nullptr && work->cut)) return;
    shape.search(s, work);
  }
}

std::optional<Way> Fit::within(const Budgets& budgets, SearchWork* work) {
  if (has_no_room(budgets)) return std::nullopt;
  FitSearch s{.had = budgets, .most = budgets};
  search(s, work);
  if (!s.needs) return std::nullopt;
  return s.way;
}

std::optional<Budgets> Fit::nearest(const Budgets& had, const Budgets& most, SearchWork* work) {
  FitSearch s{.had = had, .most = most};
  search(s, work);
  if (!s.needs) return std::nullopt;
  Budgets larger = had;
  for (const Tier tier : all_tiers)
    if (const Bytes need = s.needs->of(tier); need > had.of(tier))
      larger.of(tier) = std::max(need, std::min(written_above(need), most.of(tier)));
  return larger;
}

}  // namespace tidepool
