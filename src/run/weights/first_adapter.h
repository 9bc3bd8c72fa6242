// The adapter that a new run with LoRA starts from (lora.adapter): a directory that PEFT or another run
// wrote.
#pragma once

#include "config/config.h"
#include "run/outputs/run_outputs.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Checks that the adapter holds just the tensors that this run trains, and was trained beside this run's
// model as far as its directory tells; before anything is planned or taken. Nothing to do without
// lora.adapter. ErrorKind::bad_input naming file and tensor, usage where it is of another model,
// corrupt_checkpoint where a checkpoint's hashes do not agree.
Result<void> check_first_adapter(const Config&, const ModelGraph&);

// Loads its tensors into the state, after the frozen model's. REQUIRES: check_first_adapter().
Result<void> load_first_adapter(const Config&, const ModelGraph&, StateWriter&, RunOutputs&);

}  // namespace tidepool
