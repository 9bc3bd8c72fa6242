// check_mamba() checks the kinds of layers, and the sizes of Mamba-2.
#pragma once

#include <optional>

#include "tidepool/model_config.h"

namespace tidepool {

// RETURNS: nothing for families without kinds of layers.
std::optional<ModelFault> check_mamba(const ModelConfig&);

}  // namespace tidepool
