// The table of commands; cli.cpp walks it for dispatch, help and completion.
#pragma once

#include <span>
#include <string_view>

#include "cli/options.h"

namespace tidepool {

struct Command {
  std::string_view name;
  std::string_view words;    // after the name, "CONFIG.yaml [key=value ...]"
  std::string_view summary;  // one line
  std::span<const Option> options;
  size_t least_words = 0;
  Result<void> (*run)(const Arguments&) = nullptr;
  std::string_view more = "";  // further help, lines of at most 80 columns
};

std::span<const Command> commands();

}  // namespace tidepool
