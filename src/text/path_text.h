// Paths as people type them.
#pragma once

#include <string>

namespace tidepool {

// "runs/a//" is "runs/a", so that something can be put behind it; "/" stays.
std::string without_slashes(std::string path);
// Where the path leads from here, for those who look from elsewhere.
std::string absolute_path(const std::string& path);

}  // namespace tidepool
