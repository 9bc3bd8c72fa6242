// plan_run() makes the plan of a run, which `train` carries out and `tidepool plan` shows. It chooses by
// bytes, or, if machine.file gives a machine's rates, by predicted time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fit/alternatives.h"
#include "fit/choose.h"
#include "fit/job.h"

namespace tidepool {

struct RunPlan {
  PlanOptions asked;    // as in the config
  PlanOptions options;  // with the chosen values written out
  Plan plan;
  std::optional<Machine> machine;    // from machine.file
  std::optional<Forecast> forecast;  // on that machine
  u32 candidates = 1;                // plans compared
  // machine.parallel: auto: seconds of a step in the mode that was not chosen; 0: it was not possible.
  double other_parallel_seconds = 0;
};

// machine.file; none if the config names none.
// Errors: as load_machine().
Result<std::optional<Machine>> machine_of_file(const Config&);

// The config as that machine would run it: on all of its GPUs, if it has GPUs and machine.executor is cpu
// (the default) or auto. A config that contradicts the machine is returned unchanged, and question_of()
// refuses it.
Config on_machine(const Config&, const std::optional<Machine>&);

// RunQuestion is the input of the planner, with machine.file if there is one.
// Errors: ErrorKind::usage if the file is bad, describes devices that train cannot run on, or lacks the
// devices that machine.executor names; does_not_fit if budgets are larger than the machine's memory or, in a
// plan for the machine of a file, its disk.
struct RunQuestion {
  PlanOptions options;
  std::optional<Machine> machine;
};
// `read`: machine.file, if the caller has read it already; a pipe can be read only once.
Result<RunQuestion> question_of(const Job&, PlanFor, std::optional<Machine> read = std::nullopt);

// PlanProgress is called while plans are tried, and if none fits, while changes are tried.
struct PlanProgress {
  PlanTried tried;
  ChangeTried trying_change;
};

// Deterministic: the same config, machine file and budgets give the same plan. `read`: as in question_of().
// Errors: as question_of() and make_plan(), with more advice.
Result<RunPlan> plan_run(const Job&, PlanFor, const PlanProgress& = {},
                         std::optional<Machine> read = std::nullopt);
// As to_text(), but memory.disk=auto stays auto: the free space of today is not part of a plan's text.
std::string plan_text(const Config&, const Plan&);

// For people: how the plan was chosen. Empty without machine.file.
std::vector<std::string> describe_choice(const Config&, const RunPlan&);

// A line that says that the file's machine is not this one, which has `workers` cores of `processor`. Numbers
// do not depend on the difference, the choice of plan does. Empty: they agree.
std::string machine_mismatch(const Config&, const Machine&, u32 workers, const std::string& processor);

// RETURNS: ", layers over devices (data: 15.4 s a step)" if machine.parallel: auto compared both, else empty.
std::string parallel_text(const RunPlan&);

}  // namespace tidepool
