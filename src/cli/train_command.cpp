#include "cli/commands.h"
#include "trainer/trainer.h"

namespace tidepool {

Result<void> train(const TrainArguments& arguments) {
  TRY(train_model({.config = arguments.config, .resume = arguments.resume, .command = arguments.command}));
  return {};
}

}  // namespace tidepool
