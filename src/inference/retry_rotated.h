// retry_rotated() repeats a command that reads a run while the run trains: its newest checkpoint may be
// rotated away during the read.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include "base/types.h"

namespace tidepool {

inline constexpr u32 attempts_max = 50;

// Calls `attempt` until it succeeds, or fails although its checkpoint still exists, at most attempts_max
// times. `attempt` stores in its argument the path of the checkpoint that it found in a run and is reading;
// empty: none, or everything needed has been read. A checkpoint that the user named by path is not replaced
// by another.
template <class Attempt>
auto retry_rotated(const std::function<void(const std::string&)>& note, Attempt&& attempt)
    -> decltype(attempt(std::declval<std::string&>())) {
  for (u32 tries = 1;; ++tries) {
    std::string checkpoint;
    auto result = attempt(checkpoint);
    std::error_code unused;
    if (result || checkpoint.empty() || tries == attempts_max || std::filesystem::exists(checkpoint, unused))
      return result;
    note(fmt::format("{} was rotated away while it was read: reading the next checkpoint", checkpoint));
  }
}

}  // namespace tidepool
