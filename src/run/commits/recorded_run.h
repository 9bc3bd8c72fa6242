// RecordedRun is what a process that ended without finishing has recorded in the swap file of its run.
#pragma once

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
  std::string branch;  // id; empty: unknown
};

// RETURNS: the config for a plan that finds the recorded chunks in their slots, unless the user chose
// otherwise.
Config with_slots_of(Config, const RecordedRun&);
// True if the plan has the recorded chunks in the same slots.
bool has_slots_of(const Plan&, const ModelGraph&, const RecordedRun&);

// Brings the recorded state into the session.
// REQUIRES: frozen windows are loaded already, or there are none.
Result<void> restore_recorded_state(const RecordedRun&, SessionRecords::Way, Session&, RunOutputs&);

}  // namespace tidepool
