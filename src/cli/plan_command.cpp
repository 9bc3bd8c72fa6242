#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "planner/explain.h"
#include "report/terminal.h"
#include "trainer/session.h"
#include "trainer/summary.h"

namespace tidepool {

Result<void> plan(const PlanArguments& arguments) {
  TRY_ASSIGN(const ModelGraph graph, make_graph(arguments.config));
  TRY_ASSIGN(const Bytes disk, disk_budget(arguments.config));
  TRY_ASSIGN(const Plan made, make_plan(graph, plan_options(arguments.config, disk)));
  if (!arguments.explain.empty()) {
    TRY_ASSIGN(const std::string text,
               explain(made, graph, arguments.segment.empty() ? "body" : arguments.segment, arguments.explain));
    fmt::print("{}", text);
    return {};
  }
  fmt::print("{}", arguments.text ? plan_text(arguments.config, made)
                                  : render_plan(summarize(arguments.config, graph, made, nullptr), detect_screen(1)));
  return {};
}

}  // namespace tidepool
