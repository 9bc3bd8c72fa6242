// describe_unused() lists tensors that a model does not use, in at most two lines.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tidepool/model_config.h"

namespace tidepool {

// `tensors`: names returned by load_weights(). Layers beyond the model's get a line of their own with their
// numbers: config.json states fewer layers than the files hold.
std::vector<std::string> describe_unused(const std::string& directory, std::span<const std::string> tensors,
                                         const ModelConfig&);

}  // namespace tidepool
