// Checks of parts of a model: kinds of layers, the sizes of Mamba-2, and angles.
#pragma once

#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// RETURNS: nothing for families without kinds of layers.
std::optional<ModelFault> check_mamba(const ModelConfig&);

// The angles of the rotary embedding.
std::optional<ModelFault> check_rope(const ModelConfig&);

}  // namespace tidepool
