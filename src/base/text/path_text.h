// Text functions for paths that users type.
#pragma once

#include <string>
#include <string_view>

namespace tidepool {

// Removes slashes at the end, so that a name can be appended: "runs/a//" is "runs/a"; "/" stays.
std::string without_slashes(std::string path);
// Absolute path from the current directory, for use from other directories.
std::string absolute_path(const std::string& path);
// Absolute path with links followed as far as the path exists, without slashes at the end: one text for each
// place.
std::string canonical_path(const std::string& path);

// True if `path`, with links followed, is `directory` or lies below it. False if it does not exist.
bool is_within(const std::string& path, const std::string& directory);

// True if something has this name, even a link that leads nowhere: opening it then reports the fault. Calls
// nothing that throws.
bool is_named(const std::string& path);
// "a link that leads back to itself", "a link that leads nowhere"; empty: `path` is neither.
std::string_view dead_link(const std::string& path);

}  // namespace tidepool
