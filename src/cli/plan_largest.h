// Finds the largest model that fits a machine, and the longest sequence: `tidepool plan --max`,
// `--max-length`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

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

// Lengths that are tried, ascending: four in each octave, up to the model's positions.
std::vector<u32> lengths_to_try(u32 longest);

struct Longest {
  u32 tokens = 0;
  std::string longer;  // why the next length cannot be had; empty: the model has no more positions
};

// Finds the longest sequence that fits, by bisection. `options`: those of the config's own length. `tried` is
// called before each length. RETURNS: the refusal of the shortest if not even that fits.
Result<Longest> find_longest(const Config&, const PlanOptions& options,
                             const std::function<void(u32 tokens)>& tried = {});

// Runs `plan --max-length`: plans and verifies the longest sequence, and shorter ones for comparison.
// `what_if`: also the longest with more of each budget.
Result<void> print_longest(const Config&, const std::optional<Machine>&, bool what_if = false);

}  // namespace tidepool
