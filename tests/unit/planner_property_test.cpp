// Random models and budgets: every plan verifies (make_plan refuses any other), or the answer is a
// typed "does not fit" whose budgets do fit.
#include <gtest/gtest.h>

#include <regex>

#include "planner/lower_bound.h"
#include "planner/verify.h"
#include "tests/support/random_case.h"

namespace tidepool {
namespace {

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
    test::RandomCase c = test::random_case(seed);
    const ModelGraph graph = test::make_graph(c.shape);
    Result<Plan> plan = make_plan(graph, c.options);
    if (!plan) {
      ASSERT_EQ(plan.error().kind, ErrorKind::does_not_fit)
          << "seed " << seed << ": " << plan.error().message;
      const std::string message = plan.error().message;
      follow_advice(message, c.options.budgets);
      plan = make_plan(graph, c.options);
      ASSERT_TRUE(plan) << "seed " << seed << ": followed '" << message << "' but: " << plan.error().message;
      ++advised;
    } else {
      ++fitted;
    }
    ASSERT_TRUE(verify_plan(*plan, graph)) << "seed " << seed;
    // Forced homes are part of what is declared, and without clipping docs/lower-bounds.md has an exception.
    if (c.options.home != HomePolicy::automatic || !c.options.clipping) continue;
    const auto moved = link_bytes(*plan, SegmentKind::body), least = lower_bound(*plan, graph);
    for (u32 l = 0; l < link_count; ++l)
      EXPECT_GE(moved[l].value, least[l].value) << "seed " << seed << " " << name(static_cast<LinkKind>(l));
  }
  EXPECT_GT(fitted, 80u);
  EXPECT_GT(advised, 50u);
}

TEST(PlannerProperty, SameInputsGiveTheSameText) {
  for (u32 seed = 0; seed < 20; ++seed) {
    const test::RandomCase c = test::random_case(seed);
    const ModelGraph graph = test::make_graph(c.shape);
    const Result<Plan> a = make_plan(graph, c.options), b = make_plan(graph, c.options);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    EXPECT_EQ(to_text(*a), to_text(*b)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tidepool
