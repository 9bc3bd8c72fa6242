// What stands in a model directory in the place of weights that can be read.
#pragma once

#include <string>

namespace tidepool {

// Whether `directory` holds model.safetensors or its index.
bool has_weights(const std::string& directory);

// Of one that holds neither: that there are pickled weights, or shards without their index, and what to do
// about it. Empty: nothing of that kind is there.
std::string other_weights(const std::string& directory);

}  // namespace tidepool
