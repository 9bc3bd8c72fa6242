// first_adapter checks and loads the adapter that a new run with LoRA starts from (lora.adapter): a directory
// that PEFT or another run wrote.
#pragma once

#include "fit/job.h"
#include "run/outputs/run_outputs.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Checks, before anything is planned or allocated, that the adapter holds exactly the tensors that this run
// trains, and that it was trained beside this run's model, as far as its directory tells. A no-op without
// lora.adapter.
// ErrorKind::bad_input naming file and tensor; usage if the adapter is of another model; corrupt_checkpoint
// if a checkpoint's hashes do not match.
Result<void> check_first_adapter(const Job&);

// Loads the adapter's tensors into the state, after the frozen model's.
// REQUIRES: check_first_adapter().
Result<void> load_first_adapter(const Job&, StateWriter&, RunOutputs&);

}  // namespace tidepool
