// Dispatches the words of a command line to a command; help, completion and exit codes of all commands.
#include "cli/cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "base/text/nearest.h"
#include "base/version.h"
#include "cli/command.h"
#include "config/schema.h"
#include "executor/devices.h"
#include "log/log.h"
#include "net/launcher.h"
#include "report/error_text.h"
#include "report/print_text.h"
#include "report/standard_writers.h"

namespace tidepool {

namespace {

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(commands(), name, &Command::name);
  return found == commands().end() ? nullptr : *found;
}

std::string command_help(const Command& command) {
  const char* space = command.words.empty() ? "" : " ";
  std::string out =
      fmt::format("tidepool {}{}{}\n  {}\n", command.name, space, command.words, command.summary);
  if (!command.options.empty()) out += fmt::format("\nOptions:\n{}", options_help(command.options));
  return out + std::string(command.more);
}

std::string version_text() {
#ifdef TIDEPOOL_HAS_JEMALLOC
  constexpr const char* allocator = "jemalloc";
#else
  constexpr const char* allocator = "the system's malloc";
#endif
#ifdef NDEBUG
  constexpr const char* build = "release";
#else
  constexpr const char* build = "debug";
#endif
  return fmt::format("tidepool {} ({}, commit {}, {}, executors: cpu{})\n", version(), build, commit(),
                     allocator, gpu_backend() != nullptr ? ", cuda" : "");
}

int complain(const Error& error, std::string_view advice) {
  log_text(LogLevel::error, error.message);
  print_text(stderr, "{}\n", error_text("tidepool: " + error.message, detect_screen(STDERR_FILENO)));
  if (!advice.empty()) print_text(stderr, "{}\n", advice);
  return exit_code(error);
}

int unknown_command(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command* command : commands()) names.push_back(command->name);
  return complain({ErrorKind::usage, fmt::format("unknown command '{}'{}", name, did_you_mean(name, names))},
                  "'tidepool --help' lists the commands.");
}

// RETURNS: true if a launcher started this process as another node than 0. Most commands run once: N nodes
// would write to the same files, and say the same N times.
bool leaves_it_to_node_0(const Command& command) {
  const Result<Launcher> launcher = find_launcher([](const char* name) { return std::getenv(name); });
  if (!launcher || launcher->rank == 0) return false;
  print_text(stderr, "tidepool: node {} of {} has nothing to do: node 0 runs `tidepool {}`\n", launcher->rank,
             launcher->size, command.name);
  return true;
}

// Commands may start a log and writers. Their end comes after the last message.
struct WritersEnd {
  ~WritersEnd() {
    if (const std::string missing = finish_log(); !missing.empty())
      print_text(stderr, "WARNING: {}\n", missing);
    finish_writers();
  }
};

bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

int run_command(const Command& command, std::span<const std::string> words) {
  const std::string advice = fmt::format("'tidepool {} --help' says more.", command.name);
  const auto end_of_options = std::ranges::find(words, "--");
  if (std::any_of(words.begin(), end_of_options, is_help)) {
    print_text("{}", command_help(command));
    return 0;
  }
  const Result<Arguments> arguments = Arguments::parse(command.options, words);
  if (!arguments) return complain(arguments.error(), advice);
  if (arguments->positional().size() < command.least_words) {
    return complain({ErrorKind::usage, fmt::format("{} needs {}", command.name, command.words)}, advice);
  }
  if (command.launched == Command::Launched::node_0_runs && leaves_it_to_node_0(command)) return 0;
  const WritersEnd end;
  const Result<void> done = command.run(*arguments);
  if (done) return 0;
  return complain(done.error(), done.error().kind == ErrorKind::usage ? advice : "");
}

}  // namespace

std::string main_help() {
  std::string out =
      "Tidepool trains language models whose state is larger than your memory.\n\n"
      "tidepool COMMAND ...\n\n";
  for (const Command* command : commands()) {
    const std::string call = command->words.empty() ? std::string(command->name)
                                                    : fmt::format("{:<10} {}", command->name, command->words);
    out += fmt::format("  {}\n  {:<13}{}\n", call, "", command->summary);
  }
  out +=
      "\n"
      "tidepool COMMAND --help explains a command; tidepool --version prints the\n"
      "version.\n\n"
      "To begin:  tidepool doctor\n"
      "           tidepool plan examples/own-text/config.yaml\n"
      "           tidepool train examples/own-text/config.yaml\n\n"
      "Exit codes: 0 done, 1 internal failure, 2 usage or config, 3 does not fit,\n"
      "4 bad input file, 5 corrupt checkpoint, 6 I/O failure, 7 non-finite loss,\n"
      "75 interrupted but resumable, 128+n signal n.\n";
  return out;
}

int run_cli(const std::vector<std::string>& words) {
  if (words.empty() || is_help(words[0]) || words[0] == "help") {
    const Command* command = words.size() > 1 ? find_command(words[1]) : nullptr;
    if (words.size() > 1 && command == nullptr) return unknown_command(words[1]);
    print_text("{}", command ? command_help(*command) : main_help());
    return 0;
  }
  if (words[0] == "--version") {
    print_text("{}", version_text());
    return 0;
  }
  const Command* command = find_command(words[0]);
  return command ? run_command(*command, std::span(words).subspan(1)) : unknown_command(words[0]);
}

}  // namespace tidepool
