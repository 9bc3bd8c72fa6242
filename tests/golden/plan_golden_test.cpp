// Compares plans as text, which is reviewed as diffs. TIDEPOOL_REWRITE_GOLDEN=1 rewrites the files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "planner/planner.h"
#include "tests/support/places.h"
#include "tests/support/support_graph.h"

namespace tidepool::plan_golden_test {

struct Golden {
  const char* name;
  PlanOptions options;
  Precision precision = Precision::bf16;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

class PlanGolden : public testing::TestWithParam<Golden> {};

const std::string folder = source_file("tests/golden/plans/");

// RETURNS: the first pair of lines that differ; empty if none. A whole plan would fill screens.
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream in_a(a), in_b(b);
  for (u32 number = 1;; ++number) {
    std::string line_a, line_b;
    const bool more_a = static_cast<bool>(std::getline(in_a, line_a));
    const bool more_b = static_cast<bool>(std::getline(in_b, line_b));
    if (!more_a && !more_b) return {};
    if (line_a != line_b || more_a != more_b)
      return fmt::format("line {}:\n  now    {}\n  golden {}\n", number, line_a, line_b);
  }
}

TEST_P(PlanGolden, TextIsUnchanged) {
  const auto plan =
      make_plan(test::make_graph({.layers = 2, .precision = GetParam().precision}), GetParam().options);
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string path = folder + GetParam().name + ".txt";
  if (std::getenv("TIDEPOOL_REWRITE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(folder);
    std::ofstream(path) << to_text(*plan);
  }
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(first_difference(to_text(*plan), golden.str()), "")
      << path << "; if that is meant, run test_golden with TIDEPOOL_REWRITE_GOLDEN=1 and review the diff";
}

constexpr Bytes disk{1 << 30};
INSTANTIATE_TEST_SUITE_P(
    Plans, PlanGolden,
    testing::Values(
        Golden{"resident", {.budgets = {Bytes{8 * mib}, Bytes{mib}, disk}}},
        Golden{"streaming",
               {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk},
                .micro_batches = 2,
                .home = HomePolicy::disk}},
        Golden{"waiting", {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk}, .micro_batches = 2}},
        Golden{"unclipped", {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk}, .clipping = false}},
        Golden{"two_sweeps",
               {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk}, .micro_batches = 2, .sweeps = 2}},
        Golden{"fp16",
               {.budgets = {Bytes{512 * kib}, Bytes{512 * kib}, disk}, .micro_batches = 2},
               Precision::fp16}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::plan_golden_test
