// The model that adapters stand beside: whether it is the one that they were trained beside.
#pragma once

#include <string>

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

// `base` against what the checkpoint's run keeps of its config.json, and against the weights_fingerprint() in
// trainer_state.json; what is not there is not asked about, as of PEFT's adapters and of older checkpoints.
// ErrorKind::usage where they differ.
Result<void> check_base_model(const std::string& base, const std::string& checkpoint);

// The same of all bytes of the base's weights, by what load_weights() made of them while it read them:
// against base_xxh3 in the checkpoint's trainer_state.json, or against `then`. ErrorKind::bad_input where
// they differ.
Result<void> check_base_weights(const std::string& base, const std::string& checkpoint,
                                const std::string& xxh3);
Result<void> same_base_weights(const std::string& base, const std::string& then, const std::string& xxh3);

// With lora.r the model stays as its directory has it, and whoever puts the two together reads it there: a
// config that changes its keys would train adapters of a model that is nowhere. ErrorKind::usage.
Result<void> check_model_is_unchanged(const Config&);

}  // namespace tidepool
