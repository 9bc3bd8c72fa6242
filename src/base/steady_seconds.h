// steady_seconds() is the clock for all timing: seconds that never jump. The epoch means nothing.
#pragma once

#include <chrono>

namespace tidepool {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tidepool
