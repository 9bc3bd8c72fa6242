#include "machine/cpu_name.h"

#include <fstream>

namespace tidepool {

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace tidepool
