#include <csignal>

#include "cli/commands.h"
#include "trainer/trainer.h"

namespace tidepool {

Result<void> train(const TrainArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // `train ... | head` must not end a run of days: it goes on without a reader
  TRY(train_model({.config = arguments.config, .resume = arguments.resume, .command = arguments.command}));
  return {};
}

}  // namespace tidepool
