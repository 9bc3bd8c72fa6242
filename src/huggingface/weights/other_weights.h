// Explains why a model directory has no weights that can be read.
#pragma once

#include <string>

namespace tidepool {

// True if `directory` holds model.safetensors or its index.
bool has_weights(const std::string& directory);

// Message for a directory without both: it has pickled weights, or shards without their index, and what to
// do.
// RETURNS: empty if it has neither.
std::string other_weights(const std::string& directory);

}  // namespace tidepool
