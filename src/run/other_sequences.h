// Why a checkpoint cannot go on under a config whose steps take other sequences.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "config/config.h"

namespace tidepool {

// ErrorKind::usage. Names the keys that differ and may have made the difference, and what keeps the steps as
// they were; where no key does, the files do. Data keys are compared with the config.yaml of the checkpoint's
// run.
// REQUIRES: `fingerprint`, BatchSource::fingerprint() of `now`, is not the checkpoint's.
Error other_sequences(const FoundCheckpoint&, const std::string& fingerprint, const Config& now);

}  // namespace tidepool
