// How one model's config.json differs from another's.
#pragma once

#include <string>

#include "tidepool/model_config.h"

namespace tidepool {

// "n_embd is 64 there and 128 here, ...", or nothing. Of keys that decide what a model computes: dropout and
// initializer_range are those of a training.
std::string config_difference(const ModelConfig& there, const ModelConfig& here);

}  // namespace tidepool
