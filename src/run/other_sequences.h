// other_sequences() explains why a run cannot resume from a checkpoint: the config's steps take other
// sequences.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "config/config.h"

namespace tidepool {

// RETURNS: ErrorKind::usage. The message names the keys that differ and may be the cause, and settings that
// keep the steps unchanged. If no key differs, the message says that the files do. Data keys are compared
// with config.yaml of the checkpoint's run.
// REQUIRES: `fingerprint` is BatchSource::fingerprint() of `now`, and differs from the checkpoint's.
Error other_sequences(const FoundCheckpoint&, const std::string& fingerprint, const Config& now);

}  // namespace tidepool
