// Plans as text, reviewed as diffs. TIDEPOOL_REWRITE_GOLDEN=1 rewrites the files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../unit/support_graph.h"
#include "planner/planner.h"

namespace tidepool {
namespace {

struct Golden {
  const char* name;
  PlanOptions options;
};

class PlanGolden : public testing::TestWithParam<Golden> {};

TEST_P(PlanGolden, TextIsUnchanged) {
  const auto plan = make_plan(test::make_graph({.layers = 2}), GetParam().options);
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string path = std::string(TIDEPOOL_SOURCE_DIR "/tests/golden/plans/") + GetParam().name + ".txt";
  if (std::getenv("TIDEPOOL_REWRITE_GOLDEN") != nullptr) std::ofstream(path) << to_text(*plan);
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(to_text(*plan), golden.str()) << path << " differs; if that is meant, rewrite with "
                                          << "TIDEPOOL_REWRITE_GOLDEN=1 and review the diff";
}

constexpr Bytes disk{1 << 30};
INSTANTIATE_TEST_SUITE_P(
    Plans, PlanGolden,
    testing::Values(Golden{"resident", {.budgets = {Bytes{8 * mib}, Bytes{mib}, disk}}},
                    Golden{"streaming", {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk}, .micro_batches = 2}},
                    Golden{"unclipped", {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk}, .clipping = false}},
                    Golden{"two_sweeps",
                           {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk}, .micro_batches = 2, .sweeps = 2}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tidepool
