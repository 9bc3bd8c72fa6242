// Random models and budgets: every plan verifies (make_plan refuses any other), or the answer is a
// typed "does not fit" whose budgets do fit.
#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "planner/planner.h"
#include "planner/verify.h"
#include "support_graph.h"

namespace tidepool {
namespace {

struct Case {
  test::GraphShape shape;
  PlanOptions options;
};

Case random_case(u32 seed) {
  std::mt19937 rng(seed);
  const auto pick = [&](auto... values) {
    const std::common_type_t<decltype(values)...> list[] = {values...};
    return list[rng() % (sizeof list / sizeof list[0])];
  };
  Case c;
  c.shape = {.layers = pick(1u, 2u, 5u),
             .layer_elements = u64{2048} * pick(1u, 3u, 8u, 20u),
             .embedding_elements = u64{2048} * pick(1u, 4u, 40u),
             .boundary_bytes = u64{4096} * pick(1u, 5u, 16u),
             .kept_bytes = u64{4096} * pick(0u, 8u, 40u),
             .workspace_bytes = u64{4096} * pick(1u, 16u),
             .precision = pick(Precision::fp32, Precision::bf16)};
  const auto budget = [&] { return Bytes{u64{16 * 1024} << (rng() % 11)}; };
  c.options = {.budgets = {budget(), budget(), Bytes{u64{1} << 40}},
               .micro_batches = pick(1u, 2u, 4u, 6u),
               .clipping = rng() % 2 == 0,
               .home = pick(HomePolicy::automatic, HomePolicy::device, HomePolicy::host, HomePolicy::disk,
                            HomePolicy::mixed),
               .recompute = pick(RecomputePolicy::automatic, RecomputePolicy::keep, RecomputePolicy::recompute),
               .chunk_bytes = Bytes{u64{pick(0u, 8192u, 24'000u, 65'536u)}},
               .lookahead = pick(0u, 1u, 7u)};
  return c;
}

// "set memory.device=12MiB" in a does_not_fit message.
void follow_advice(const std::string& message, Budgets& budgets) {
  const std::regex advice("memory\\.(device|host|disk)=([0-9]+)([KM])iB");
  for (std::sregex_iterator it(message.begin(), message.end(), advice), end; it != end; ++it) {
    const Bytes bytes{std::stoull((*it)[2]) * ((*it)[3] == "K" ? kib : mib)};
    ((*it)[1] == "device" ? budgets.device : (*it)[1] == "host" ? budgets.host : budgets.disk) = bytes;
  }
}

TEST(PlannerProperty, EveryPlanVerifiesOrSaysWhatWouldFit) {
  u32 fitted = 0, advised = 0;
  for (u32 seed = 0; seed < 400; ++seed) {
    Case c = random_case(seed);
    const ModelGraph graph = test::make_graph(c.shape);
    Result<Plan> plan = make_plan(graph, c.options);
    if (!plan) {
      ASSERT_EQ(plan.error().kind, ErrorKind::does_not_fit) << "seed " << seed << ": " << plan.error().message;
      const std::string message = plan.error().message;
      follow_advice(message, c.options.budgets);
      plan = make_plan(graph, c.options);
      ASSERT_TRUE(plan) << "seed " << seed << ": followed '" << message << "' but: " << plan.error().message;
      ++advised;
    } else {
      ++fitted;
    }
    ASSERT_TRUE(verify_plan(*plan, graph)) << "seed " << seed;
  }
  EXPECT_GT(fitted, 80u);
  EXPECT_GT(advised, 50u);
}

TEST(PlannerProperty, SameInputsGiveTheSameText) {
  for (u32 seed = 0; seed < 20; ++seed) {
    const Case c = random_case(seed);
    const ModelGraph graph = test::make_graph(c.shape);
    const Result<Plan> a = make_plan(graph, c.options), b = make_plan(graph, c.options);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    EXPECT_EQ(to_text(*a), to_text(*b)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tidepool
