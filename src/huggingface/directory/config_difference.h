// config_difference() says how the config.json of two models differ.
#pragma once

#include <string>

#include "tidepool/model_config.h"

namespace tidepool {

// RETURNS: "n_embd is 64 there and 128 here, ...", or nothing if they agree. Compares only keys that decide
// what a model computes; dropout and initializer_range belong to a training.
std::string config_difference(const ModelConfig& there, const ModelConfig& here);

}  // namespace tidepool
