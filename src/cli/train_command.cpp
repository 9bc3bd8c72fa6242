#include <fmt/format.h>

#include <csignal>
#include <cstdio>

#include "cli/commands.h"
#include "fit/executor_choice.h"
#include "report/print_text.h"
#include "run/trainer.h"

namespace tidepool {

Result<void> train(const TrainArguments& arguments) {
  std::signal(SIGPIPE,
              SIG_IGN);  // `train ... | head` must not end a run of days: it goes on without a reader
  Config config = arguments.config;
  TRY_ASSIGN(const std::string executor, resolve_executor(config));
  if (!executor.empty()) print_text(stderr, "{}\n", executor);
  TRY(train_model({.config = config, .resume = arguments.resume, .command = arguments.command}));
  return {};
}

}  // namespace tidepool
