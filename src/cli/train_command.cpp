#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/text/nearest.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/config_words.h"
#include "config/schema.h"
#include "fit/executor_choice.h"
#include "log/log.h"
#include "net/connect_nodes.h"
#include "report/print_text.h"
#include "report/standard_writers.h"
#include "run/trainer.h"

namespace tidepool {
namespace {

constexpr std::array options_of_train = {
    Option{"resume", "auto|PATH", "resume from the newest good checkpoint, or from PATH"},
    Option{"log-level", "LEVEL", "run.log from debug (default), info, warning, error; off"},
    Option{"help-config", "", "list all config keys"},
};
constexpr const char* log_level_variable = "TIDEPOOL_LOG_LEVEL";

// RETURNS: the command that repeats this run, for messages and the report.
std::string command_line(const Arguments& arguments) {
  std::string out = "tidepool train";
  for (const std::string& word : arguments.positional()) out += ' ' + word;
  return out;
}

// Refuses a path that is not there if `auto` was probably meant.
Result<void> check_is_not_mistyped(const std::string& resume) {
  constexpr std::array<std::string_view, 1> known = {"auto"};
  std::error_code unused;
  if (resume == known[0] || std::filesystem::exists(resume, unused)) return {};
  const std::string advice = did_you_mean(resume, known);
  if (advice.empty()) return {};
  return usage_error(fmt::format("--resume {}: there is no such checkpoint{}", resume, advice));
}

// RETURNS: null if no launcher started this process as one of several.
Result<std::unique_ptr<Transport>> connect(const Config& config) {
  TRY_ASSIGN(const Launcher launcher, find_launcher([](const char* name) { return std::getenv(name); }));
  if (launcher.kind == LauncherKind::none || launcher.size == 1) return std::unique_ptr<Transport>();
  // Until the nodes have met, none can tell a node that hangs from one that starts late.
  constexpr double timeouts_to_meet = 12;
  const double timeout = config.machine.peer_timeout_seconds;
  TransportOptions options{.timeout_seconds = timeout, .start_timeout_seconds = timeouts_to_meet * timeout};
  // MPI does not say which nodes are missing: those that do not say this.
  options.waits = [launcher, options] {
    print_text(stderr,
               "tidepool: node {} of {} waits for the other nodes to start, for {:g} s more at most; every "
               "node must run `tidepool train`\n",
               launcher.rank, launcher.size,
               std::max(0.0, options.start_timeout_seconds - options.start_notice_seconds));
  };
  return connect_nodes(launcher, options);
}

// The option wins over the variable.
Result<LogLevel> log_level(const Arguments& arguments) {
  const char* variable = std::getenv(log_level_variable);
  if (variable != nullptr && *variable != '\0' && !arguments.has("log-level"))
    return parse_log_level(variable, log_level_variable);
  if (!arguments.has("log-level")) return LogLevel::debug;
  return parse_log_level(arguments.text("log-level"), "--log-level");
}

void say_on_stderr(const std::string& line) {
  print_text(stderr, "{}\n", line);
  log_text(LogLevel::info, line);
}

Result<void> run_train(const Arguments& arguments) {
  if (arguments.has("help-config")) {
    print_text("{}", config_help());
    return {};
  }
  const std::string resume = arguments.text("resume");
  TRY_ASSIGN(const LogLevel least_level, log_level(arguments));
  TRY_ASSIGN(Config config, config_of(arguments.positional(),
                                      arguments.has("resume") ? KeptModel::read : KeptModel::unread));
  // Refused: an empty variable in a script must not start the run from the beginning.
  if (arguments.has("resume") && resume.empty())
    return usage_error("--resume: write --resume auto, or the path of a checkpoint");
  TRY(check_is_not_mistyped(resume));
  std::signal(SIGPIPE, SIG_IGN);  // `train ... | head`: a run of days continues without its reader
  TRY(start_writers());           // `train ... | less`: nor does it wait for a reader
  TRY_ASSIGN(const std::unique_ptr<Transport> nodes, connect(config));
  TRY(start_log({.least = least_level, .node = nodes ? nodes->node() : none}));
  log_text(LogLevel::info,
           fmt::format("tidepool {}, commit {}: {}{}", version(), commit(), command_line(arguments),
                       arguments.has("resume") ? " --resume " + arguments.text("resume") : ""));
  if (nodes) log_debug("{}", nodes->describe());
  TRY_ASSIGN(const std::string executor, resolve_executor(config));
  if (!executor.empty()) say_on_stderr(executor);
  TRY(train_model(
      {.config = config, .resume = resume, .command = command_line(arguments), .transport = nodes.get()}));
  return {};
}

}  // namespace

constinit const Command train_command = {
    .name = "train",
    .words = config_words,
    .summary = "train; Ctrl-C saves a checkpoint and stops",
    .options = options_of_train,
    .run = run_train,
    .more = override_help,
    .launched = Command::Launched::each_runs,
};

}  // namespace tidepool
