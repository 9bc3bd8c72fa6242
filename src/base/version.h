// Version and commit of this Tidepool, for reports and messages.
#pragma once

#include <string_view>

namespace tidepool {

std::string_view version();  // "0.1.0"
std::string_view commit();   // of the sources, 12 hex digits; "unknown" if built without git

}  // namespace tidepool
