// The command line: which command, its words, help, and exit codes.
#pragma once

#include <string>
#include <vector>

namespace tidepool {

// `words`: without the program's name. Prints to stdout, errors to stderr. Returns the exit code.
int run_cli(const std::vector<std::string>& words);

std::string main_help();
std::string bash_completion();

}  // namespace tidepool
