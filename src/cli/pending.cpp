// Commands whose parts are not wired yet.
#include "cli/commands.h"

namespace tidepool {

namespace {
Error pending(const char* command) {
  return {ErrorKind::internal, std::string(command) + " is not built yet"};
}
}  // namespace

Result<void> train(const TrainArguments&) { return pending("train"); }
Result<void> plan(const PlanArguments&) { return pending("plan"); }
Result<void> generate(const GenerateArguments&) { return pending("generate"); }
Result<void> report(const ReportArguments&) { return pending("report"); }

}  // namespace tidepool
