// CommittedRun is what a process that ended without finishing has committed in the swap file of its run.
#pragma once

#include <string>

#include "checkpoint/trainer_state.h"
#include "config/config.h"
#include "io/state_journal.h"
#include "run/outputs/run_outputs.h"
#include "session/session.h"
#include "session/state_table.h"

namespace tidepool {

struct CommittedRun {
  FoundState found;
  StateTable table;
  TrainerState state;
  std::string branch;  // id; empty: unknown
};

// RETURNS: the config for a plan that finds the committed chunks in their slots, unless the user chose
// otherwise.
Config with_slots_of(Config, const CommittedRun&);
// True if the plan has the committed chunks in the same slots.
bool has_slots_of(const Plan&, const ModelGraph&, const CommittedRun&);

// Brings the committed state into the session.
// REQUIRES: frozen windows are loaded already, or there are none.
Result<void> restore_committed_state(const CommittedRun&, SessionCommits::Mode, Session&, RunOutputs&);

}  // namespace tidepool
