// The README and the pages that it links to show what exists.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>

#include "cli/cli.h"
#include "cli/command.h"
#include "config/config.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "planner/planner.h"
#include "run/assembly/summary.h"
#include "tests/support/asked_plan.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::readme_test {

using ::testing::HasSubstr;

std::string source_text(const std::string& name) { return test::file_text(source_file(name)); }

// One page: the rest belongs in docs/.
TEST(Readme, IsShort) {
  const std::string text = source_text("README.md");
  EXPECT_LE(std::ranges::count(text, '\n'), 140);
}

TEST(Readme, TrainingPageShowsTheQuickstartConfigAsItIs) {
  EXPECT_THAT(source_text("docs/training.md"), HasSubstr("`configs/quickstart.yaml`:\n\n```yaml\n" +
                                                         source_text("configs/quickstart.yaml") + "```\n"));
}

// Messages have line breaks only on a terminal.
std::string without_breaks(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

TEST(Readme, FitPageShowsTheOutputOfPlan) {
  ::testing::internal::CaptureStderr();
  const int code = run_cli({"plan", source_file("configs/gpt-100m.yaml"), "memory.device=100MiB"});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 3);
  EXPECT_THAT(without_breaks(source_text("docs/fit.md")),
              HasSubstr("``` $ tidepool plan configs/gpt-100m.yaml memory.device=100MiB " +
                        without_breaks(said) + " ```"));
}

// Outputs are pasted from runs. Regression: an example had a placeholder that was never filled in.
TEST(Readme, HasNoPlaceholders) {
  for (const char* name :
       {"README.md", "docs/training.md", "docs/resume.md", "docs/evaluate-and-generate.md",
        "docs/commands.md", "docs/fit.md", "docs/gpu.md", "examples/README.md",
        "examples/tight-budget/README.md", "examples/own-text/README.md", "examples/chat/README.md",
        "examples/continue/README.md", "examples/lora/README.md", "examples/llama-70b/README.md"}) {
    EXPECT_FALSE(source_text(name).empty()) << name;
    for (const char* placeholder : {"@", "TODO", "FIXME", "TBD", "XXX", "{{"})
      EXPECT_THAT(source_text(name), ::testing::Not(HasSubstr(placeholder))) << name;
  }
}

// The page's table has a row for every command.
TEST(Readme, CommandPageNamesEveryCommand) {
  const std::string page = source_text("docs/commands.md");
  for (const Command* command : commands())
    EXPECT_THAT(page, HasSubstr("\n| `" + std::string(command->name))) << command->name;
}

TEST(Readme, CountsTheQuickstartsStateAndMemory) {
  const Config config = load_config(source_file("configs/quickstart.yaml"), {}).value();
  const Job job = make_job(config).value();
  const Plan plan = make_plan(job.graph, job.options).value();
  const Bytes memory = config.memory.budgets.device + config.memory.budgets.host;
  EXPECT_THAT(source_text("docs/training.md"),
              HasSubstr(fmt::format(
                  "The {:.2f}M parameters take 12 bytes each: {} MiB of state for {:g} MiB of memory.",
                  static_cast<double>(job.graph.parameters) * 1e-6, (state_bytes(plan).value + mib / 2) / mib,
                  static_cast<double>(memory.value) / static_cast<double>(mib))));
}

}  // namespace tidepool::readme_test
