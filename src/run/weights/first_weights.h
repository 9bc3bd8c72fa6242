// What a run begins with: the weights of a model directory, or random ones.
#pragma once

#include <string>

#include "config/config.h"
#include "run/outputs/run_outputs.h"
#include "session/session.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// With LoRA the base model is loaded too, and the adapters are new or those of lora.adapter; `base_xxh3` gets
// the hash of the base model's weights. Errors: as load_weights.
Result<void> make_first_weights(const Config&, const ModelGraph&, Session&, RunOutputs&,
                                std::string& base_xxh3);

// That the config's model directory holds weights, before anything is made of them. ErrorKind::bad_input;
// usage where adapters stand beside a model that is not there any more.
Result<void> check_weights_are_there(const Config&);

// Of a run with LoRA: the frozen model. The adapters follow, from a checkpoint, which holds nothing else.
// RETURNS: the XXH3 of its weights, as load_weights() has it.
Result<std::string> load_frozen_model(const Config&, const ModelGraph&, Session&, RunOutputs&);

}  // namespace tidepool
