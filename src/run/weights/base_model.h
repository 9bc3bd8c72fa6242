// base_model checks that adapters stand beside the model that they were trained beside.
#pragma once

#include <string>

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

// Compares `base` with the config.json that the checkpoint's run keeps, and with the weights_fingerprint() in
// trainer_state.json. Skips whatever of these is missing, as in PEFT's adapters and older checkpoints.
// ErrorKind::usage if they differ.
Result<void> check_base_model(const std::string& base, const std::string& checkpoint);

// Compares all bytes of the base model's weights: `xxh3`, which load_weights() computed while reading, with
// base_xxh3 of the checkpoint's trainer_state.json, or with `then`. An unknown (empty) hash is no error.
// ErrorKind::bad_input if they differ.
Result<void> check_base_weights(const std::string& base, const std::string& checkpoint,
                                const std::string& xxh3);
Result<void> same_base_weights(const std::string& base, const std::string& then, const std::string& xxh3);

// Checks that a config with lora.r names the directory of its base model. `plan` needs no weights, and may do
// without.
// ErrorKind::usage if not.
Result<void> check_base_is_named(const Config&);

// Checks that a config without lora.r does not train a quantized model, and that one with lora.r does not
// change the model. LoRA leaves the model as it is in its directory, and whoever merges the adapters reads it
// there: with changed keys, the adapters would fit a model that exists nowhere.
// ErrorKind::usage.
Result<void> check_model_is_unchanged(const Config&);

}  // namespace tidepool
