// Paths as people type them.
#pragma once

#include <string>
#include <string_view>

namespace tidepool {

// "runs/a//" is "runs/a", so that something can be put behind it; "/" stays.
std::string without_slashes(std::string path);
// Where the path leads from here, for those who look from elsewhere.
std::string absolute_path(const std::string& path);
// Likewise, with links followed as far as the path exists: one text for each place.
std::string canonical_path(const std::string& path);

// True where something has this name, a link that leads nowhere too: whoever opens it says what is wrong with
// it. Asks nothing that throws.
bool is_named(const std::string& path);
// "a link that leads back to itself", "a link that leads nowhere"; empty: neither.
std::string_view dead_link(const std::string& path);

}  // namespace tidepool
