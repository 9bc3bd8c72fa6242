// A model directory that no run stands around, to be run forward: it says nothing but the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace tidepool {

// Not a checkpoint of ours, which has a manifest.
bool is_model_directory(const std::string& path);

// `what` is done, for messages. The rest, budgets first of all, is in the overrides; unless they say
// otherwise train.precision is the type that the weights have, and sequences no longer than its positions and
// its sliding window.
// Errors: those of the config and the weights.
Result<Config> config_of_model_directory(const std::string& directory, std::string_view what,
                                         std::vector<std::string> overrides);

}  // namespace tidepool
