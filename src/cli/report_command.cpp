#include <fmt/format.h>

#include "cli/commands.h"
#include "report/run_report.h"
#include "report/terminal.h"

namespace tidepool {

Result<void> report(const ReportArguments& arguments) {
  for (const std::string& dir : {arguments.run_dir, arguments.other_dir}) {
    if (dir.empty()) continue;
    TRY_ASSIGN(const RunReport run, read_report(dir));
    fmt::print("{}\n{}", dir, render_report(run, detect_screen(1)));
  }
  return {};
}

}  // namespace tidepool
