// Command holds a command's name, words, options and the function that runs it. Each command has a file of
// its name, such as train_command.cpp. cli.cpp uses the list of commands for dispatch, help and completion.
#pragma once

#include <span>
#include <string_view>

#include "cli/options.h"

namespace tidepool {

struct Command {
  std::string_view name;
  std::string_view words;    // that follow the name: "CONFIG.yaml [key=value ...]"
  std::string_view summary;  // one line
  std::span<const Option> options;
  size_t least_words = 0;
  Result<void> (*run)(const Arguments&) = nullptr;
  std::string_view more = "";  // further help, lines of at most 80 columns
  // Processes that a launcher starts together: each runs the command for its own machine, as a node of one
  // run, or alone.
  enum class Launched : u8 { node_0_runs, each_runs } launched = Launched::node_0_runs;
};

extern const Command train_command, plan_command, probe_command, tokenize_command, generate_command,
    export_command, eval_command, report_command, doctor_command, bench_command, config_command,
    score_command, completion_command;

// RETURNS: all commands, in the order of the help.
std::span<const Command* const> commands();

}  // namespace tidepool
