// model_directory makes a config for running a model directory forward. Without a run around it, the
// directory describes only the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace tidepool {

// True for a model directory that is not a checkpoint of Tidepool, which has a manifest.
bool is_model_directory(const std::string& path);

// `what`: the present action, for messages. The overrides give everything else, above all budgets. Unless
// they say otherwise, train.precision is the type of the weights, and train.sequence_length is at most the
// model's positions and its sliding window.
// Errors: those of the config and the weights.
Result<Config> config_of_model_directory(const std::string& directory, std::string_view what,
                                         std::vector<std::string> overrides);

}  // namespace tidepool
