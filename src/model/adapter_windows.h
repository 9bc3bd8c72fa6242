// The windows that LoRA adds to a model.
#pragma once

#include "model/layer_code.h"

namespace tidepool {

// Freezes every window and adds one per layer. Errors: ErrorKind::usage, naming the key.
Result<void> add_adapters(ModelGraph&, const LayerCode&);

}  // namespace tidepool
