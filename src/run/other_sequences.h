// other_sequences() explains why a run cannot resume from an earlier part of itself: the config's steps take
// other sequences.
#pragma once

#include <string>

#include "checkpoint/trainer_state.h"
#include "config/config.h"

namespace tidepool {

// EarlierPart is the part of a run that was trained before: what a checkpoint or a commit holds.
struct EarlierPart {
  std::string name;  // "runs/a/checkpoint-3", for messages
  std::string run;   // the run's directory; empty: unknown
  const TrainerState& state;
};

// RETURNS: ErrorKind::usage. The message names the keys that differ and may be the cause, and settings that
// keep the steps unchanged. If no key differs, the message says that the files do. Data keys are compared
// with config.yaml of the part's run.
// REQUIRES: `fingerprint` is BatchSource::fingerprint() of `now`, and differs from the part's.
Error other_sequences(const EarlierPart&, const std::string& fingerprint, const Config& now);

}  // namespace tidepool
