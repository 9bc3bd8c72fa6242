// Runs the command line: finds the command, parses its words, prints help, returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace tidepool {

// Runs one command. Prints to stdout, errors to stderr.
// `words`: the command line without the program's name.
// RETURNS: the exit code.
int run_cli(const std::vector<std::string>& words);

std::string main_help();
std::string bash_completion();

}  // namespace tidepool
