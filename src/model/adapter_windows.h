// add_adapters gives a model's layers their LoRA windows.
#pragma once

#include "model/layer_code.h"

namespace tidepool {

// Freezes every window of the model, and adds one trainable window of adapters per layer.
// RETURNS: an error of ErrorKind::usage that names the config key.
Result<void> add_adapters(ModelGraph&, const LayerCode&);

}  // namespace tidepool
