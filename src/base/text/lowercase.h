// lowercase() serves words that users may write in either case.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace tidepool {

// Changes ASCII letters only.
inline std::string lowercase(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace tidepool
