// first_weights gives a run its initial weights: those of a model directory, or random ones.
#pragma once

#include <string>

#include "checkpoint/trainer_state.h"
#include "fit/job.h"
#include "run/outputs/run_outputs.h"
#include "session/session.h"

namespace tidepool {

// Writes the initial weights to the session's state. With LoRA it loads the base model, and the adapters are
// new or those of lora.adapter. `state` gets base_xxh3, the hash of the base model's weights, or the origin
// of the weights. Errors: as load_weights.
Result<void> make_first_weights(Session&, RunOutputs&, TrainerState& state);

// Checks that the config's model directory holds weights, before anything is allocated for them.
// ErrorKind::bad_input; usage if the model that adapters stand beside has moved.
Result<void> check_weights_are_there(const Config&);

// Loads the frozen model of a run with LoRA. The caller then writes the adapters, which are all that a
// checkpoint holds.
// RETURNS: the XXH3 of the frozen weights, as load_weights() computes it.
Result<std::string> load_frozen_model(Session&, RunOutputs&);

}  // namespace tidepool
