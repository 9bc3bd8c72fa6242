// How one model's config.json differs from another's.
#pragma once

#include <string>

#include "tidepool/model_config.h"

namespace tidepool {

// "n_embd is 64 there and 128 here", or nothing. What shows in names and shapes of tensors (biases, whether
// the head is tied) is left to those who compare them.
std::string config_difference(const ModelConfig& there, const ModelConfig& here);

}  // namespace tidepool
