// The model that adapters stand beside: whether it is the one that they were trained beside.
#pragma once

#include <string>

#include "tidepool/result.h"

namespace tidepool {

// `base` against what the checkpoint's run keeps of its config.json, and against the weights_fingerprint() in
// trainer_state.json; what is not there is not asked about, as of PEFT's adapters and of older checkpoints.
// ErrorKind::usage where they differ.
Result<void> check_base_model(const std::string& base, const std::string& checkpoint);

}  // namespace tidepool
