// What the README shows is what there is.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>

#include "config/config.h"
#include "config/read/load_config.h"
#include "fit/plan_inputs.h"
#include "planner/planner.h"
#include "report/assembly/summary.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

std::string file_text(const std::string& name) {
  std::ifstream file(TIDEPOOL_SOURCE_DIR "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Readme, ShowsTheQuickstartConfigAsItIs) {
  EXPECT_THAT(file_text("README.md"), HasSubstr("`configs/quickstart.yaml`:\n\n```yaml\n" +
                                                file_text("configs/quickstart.yaml") + "```\n"));
}

// Outputs are pasted from runs: a placeholder that was never filled once stood in an example.
TEST(Readme, HasNoPlaceholders) {
  for (const char* name :
       {"README.md", "examples/README.md", "examples/tight-budget/README.md", "examples/own-text/README.md",
        "examples/chat/README.md", "examples/continue/README.md", "examples/lora/README.md",
        "examples/llama-70b/README.md"}) {
    EXPECT_FALSE(file_text(name).empty()) << name;
    for (const char* placeholder : {"@", "TODO", "FIXME", "TBD", "XXX", "{{"})
      EXPECT_THAT(file_text(name), ::testing::Not(HasSubstr(placeholder))) << name;
  }
}

TEST(Readme, CountsTheQuickstartsStateAndMemory) {
  const Config config = load_config(TIDEPOOL_SOURCE_DIR "/configs/quickstart.yaml", {}).value();
  const ModelGraph graph = make_graph(config).value();
  const Plan plan = make_plan(graph, plan_options(config)).value();
  const Bytes memory = config.memory.budgets.device + config.memory.budgets.host;
  EXPECT_THAT(file_text("README.md"),
              HasSubstr(fmt::format(
                  "The {:.2f}M parameters take 12 bytes each: {} MiB of state for {:g} MiB of memory.",
                  static_cast<double>(graph.parameters) * 1e-6, (state_bytes(plan).value + mib / 2) / mib,
                  static_cast<double>(memory.value) / static_cast<double>(mib))));
}

}  // namespace
}  // namespace tidepool
