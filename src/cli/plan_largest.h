#pragma once

#include <functional>
#include <optional>

#include "cli/plan_arguments.h"
#include "planner/planner.h"
#include "tidepool/machine.h"

namespace tidepool {

struct Largest {
  Config config;
  ModelGraph graph;
  Plan plan;
  std::string larger;  // why the next size cannot even be planned; empty: it does not fit
};
// Before each size: what it is.
using SizeTried = std::function<void(const ModelGraph&)>;

// The largest model of GPT-3's proportions that fits, by bisection, planned and verified. `options`: of the
// config's own model. ErrorKind::does_not_fit: not even the smallest.
Result<Largest> find_largest(const Config&, const PlanOptions& options, const SizeTried& tried = {});

// `plan --max`. `machine`: of machine.file.
Result<void> print_largest(const PlanArguments&, const std::optional<Machine>&);

}  // namespace tidepool
