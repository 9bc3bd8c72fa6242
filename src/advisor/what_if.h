// What the next resource would buy: one change at a time, planned again and replayed.
#pragma once

#include <functional>
#include <optional>

#include "advisor/forecast.h"
#include "planner/planner.h"

namespace tidepool {

struct WhatIf {
  std::string change;  // "host budget +25%"
  double step_seconds = 0;
  std::string binds;
};

// Before each change: its number from 1, of how many, and what it is.
using WhatIfTried = std::function<void(u32 number, u32 of, std::string_view change)>;

// `options`: those of the plan at hand, which fits. +25 % of each budget and rate, and clipping off.
Result<std::vector<WhatIf>> what_if(const ModelGraph&, const PlanOptions& options, const Machine&,
                                    const WhatIfTried& tried = {});

// The largest model of a family that fits, by bisection over its sizes, smallest first. `graph_of` makes
// the graph of a size. Returns the size, or none of them. Not verified: only found to have a place for
// everything.
template <class GraphOf>
Result<std::optional<u32>> largest_that_fits(u32 sizes, PlanOptions options, GraphOf&& graph_of) {
  options.advise = false;
  u32 fits = 0, fails = sizes;  // [0, fits) fit, [fails, sizes) do not
  while (fits < fails) {
    const u32 middle = (fits + fails) / 2;
    TRY_ASSIGN(const ModelGraph graph, graph_of(middle));
    const Result<void> found = check_fits(graph, options);
    if (!found && found.error().kind != ErrorKind::does_not_fit) return found.error();
    (found ? fits : fails) = found ? middle + 1 : middle;
  }
  return fits == 0 ? std::optional<u32>() : std::optional<u32>(fits - 1);
}

}  // namespace tidepool
