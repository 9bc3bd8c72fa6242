// The folders of this build, and its kind. places.cpp alone is compiled with them, so that a compiler cache
// knows every other test's object in a clone at another path, and in a build with ASan.
#pragma once

#include <string>

namespace tidepool {

// "configs/quickstart.yaml"; an empty name: the tree itself.
std::string source_file(const std::string& name);
// "tests/libfailing_calls.so"; an empty name: the build folder.
std::string built_file(const std::string& name);

// True in a build with a sanitizer. ASan's tests are themselves compiled without it: what it checks is the
// code of the rooms.
bool under_sanitizer();

inline std::string program_file() { return built_file("tidepool"); }
inline std::string failing_calls_file() { return built_file("tests/libfailing_calls.so"); }

}  // namespace tidepool
