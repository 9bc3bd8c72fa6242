// Files of the source tree and of the build folder. places.cpp alone is compiled with their absolute paths, so
// that a compiler cache knows every other object in a clone at another path too.
#pragma once

#include <string>

namespace tidepool {

std::string source_file(const std::string& name);  // "configs/quickstart.yaml"; an empty name: the tree itself
std::string built_file(const std::string& name);   // "tests/libfailing_calls.so"; an empty name: the build folder

inline std::string program_file() { return built_file("tidepool"); }
inline std::string failing_calls_file() { return built_file("tests/libfailing_calls.so"); }

}  // namespace tidepool
