// RecordedRun is what a process that ended without finishing has recorded in the swap file of its run.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/trainer_state.h"
#include "config/config.h"
#include "io/state_journal.h"
#include "run/outputs/run_outputs.h"
#include "session/session.h"
#include "session/state_table.h"

namespace tidepool {

struct RecordedRun {
  FoundState found;
  StateTable table;
  TrainerState state;
};

// Looks for a recorded state of the run in its swap directory. `resume`: as in TrainRequest.
// RETURNS: nullopt if nothing was recorded, or a live job uses the directory.
// Errors: usage if the state is of another run or model, or if `resume` would leave it behind: nothing is
// deleted; bad_input if the file is damaged.
Result<std::optional<RecordedRun>> find_recorded_run(const Config&, const ModelGraph&,
                                                     const std::string& resume,
                                                     const std::function<void(const std::string&)>& warn);

// RETURNS: the config for a plan that finds the recorded chunks in their slots, unless the user chose
// otherwise.
Config with_slots_of(Config, const RecordedRun&);
// True if the plan has the recorded chunks in the same slots.
bool has_slots_of(const Plan&, const ModelGraph&, const RecordedRun&);

// Brings the recorded state into the session.
// REQUIRES: frozen windows are loaded already, or there are none.
Result<void> restore_recorded_state(const RecordedRun&, SessionRecords::Way, Session&, RunOutputs&);

// Path that a journal has of a run's directory.
std::string run_name(const Config&);

}  // namespace tidepool
