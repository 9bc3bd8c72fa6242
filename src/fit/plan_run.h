// The plan of a run: what `train` carries out and `tidepool plan` shows. By bytes, or, where machine.file
// names a machine's rates, by predicted time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "fit/alternatives.h"
#include "fit/choose.h"
#include "fit/plan_for.h"

namespace tidepool {

struct RunPlan {
  PlanOptions asked;    // as the config has them
  PlanOptions options;  // with what was chosen written out
  Plan plan;
  std::optional<Machine> machine;    // of machine.file
  std::optional<Forecast> forecast;  // on that machine
  u32 candidates = 1;                // plans compared
};

// machine.file; empty where the config names none. Errors: as load_machine.
Result<std::optional<Machine>> machine_of_file(const Config&);

// The config as that machine would run it: on all of its GPUs, where it has some and machine.executor is cpu
// (the default) or auto. What contradicts the machine stays as it is, for question_of to refuse.
Config on_machine(const Config&, const std::optional<Machine>&);

// What the planner is asked, and machine.file where there is one. ErrorKind::usage: the file is bad,
// describes devices that train cannot run on, or has not those that machine.executor names; does_not_fit:
// budgets are larger than the machine's memory or, of a plan for the machine of a file, its disk.
struct RunQuestion {
  PlanOptions options;
  std::optional<Machine> machine;
};
// `read`: machine.file, where the caller has read it before; a pipe can be read once only.
Result<RunQuestion> question_of(const Config&, PlanFor, std::optional<Machine> read = std::nullopt);

// Told while a plan is looked for, and where none fits, what would.
struct PlanProgress {
  PlanTried tried;
  ChangeTried trying_change;
};

// Deterministic: same config, machine file and budgets give the same plan. `read`: as in question_of.
// Errors: as question_of and make_plan, with more advice.
Result<RunPlan> plan_run(const Config&, const ModelGraph&, PlanFor, const PlanProgress& = {},
                         std::optional<Machine> read = std::nullopt);

// For people: how the plan came about. Empty without machine.file.
std::vector<std::string> describe_choice(const Config&, const RunPlan&);

// Where the file's machine is not this one, `workers` cores of `processor`: a line that says so. Numbers do
// not depend on it, the choice does. Empty: they agree.
std::string machine_mismatch(const Config&, const Machine&, u32 workers, const std::string& processor);

}  // namespace tidepool
