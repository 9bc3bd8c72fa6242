// Tensors of a model's files that the model has no use for, said in a line or two however many there are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tidepool/model_config.h"

namespace tidepool {

// `tensors`: names, as load_weights() returns them. Layers beyond the model's are one line of their own,
// which names their numbers: config.json says fewer than the files hold.
std::vector<std::string> describe_unused(const std::string& directory, std::span<const std::string> tensors,
                                         const ModelConfig&);

}  // namespace tidepool
