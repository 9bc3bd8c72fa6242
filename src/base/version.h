// Version and commit of this Tidepool, for reports and messages.
#pragma once

#include <string_view>

namespace tidepool {

std::string_view version();  // "0.1.0"
std::string_view commit();   // commit of the sources, 12 hex digits; "unknown" if built without git

// Called once, by main(): a commit in a library would link every program and test again after each commit.
// `commit` must outlive the program.
void set_commit(std::string_view commit);

}  // namespace tidepool
