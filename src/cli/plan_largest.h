// Finds the largest model that fits a machine: `tidepool plan --max`.
#pragma once

#include <functional>
#include <optional>

#include "fit/job.h"
#include "tidepool/machine.h"

namespace tidepool {

struct Largest {
  Job job;
  Plan plan;
  std::string larger;  // why the next size cannot be planned at all; empty: it does not fit
};
// Called before each size is tried, with its model.
using SizeTried = std::function<void(const ModelGraph&)>;

// Finds the largest model of GPT-3's proportions that fits, by bisection; plans and verifies it.
// `options`: those of the config's own model.
// RETURNS: ErrorKind::does_not_fit if not even the smallest model fits.
Result<Largest> find_largest(const Config&, const PlanOptions& options, const SizeTried& tried = {});

// Runs `plan --max`. `machine`: read from machine.file.
Result<void> print_largest(const Config&, const std::optional<Machine>&);

}  // namespace tidepool
