// Random models and budgets: every plan verifies (make_plan refuses others), or the answer is a typed "does
// not fit" whose advised budgets fit.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/advice/change_text.h"
#include "planner/bound/lower_bound.h"
#include "planner/verify/verify.h"
#include "tests/support/random_case.h"

namespace tidepool::property_test {

struct Counts {
  u32 fitted = 0, advised = 0, budgets = 0,
      not_least = 0;  // advised budgets, and those of them that were too large
};

// Checks that 10 % less of the increase of any one advised budget does not fit.
void check_least(const ModelGraph& graph, const PlanOptions& had, const PlanOptions& advised,
                 Counts& counts) {
  for (Bytes Budgets::*tier : {&Budgets::device, &Budgets::host, &Budgets::disk}) {
    const Bytes raised = advised.budgets.*tier - std::min(had.budgets.*tier, advised.budgets.*tier);
    if (raised.value == 0) continue;
    PlanOptions less = advised;
    less.advise = false;
    (less.budgets.*tier).value -= raised.value / 10;
    ++counts.budgets;
    counts.not_least += check_fits(graph, less).has_value();
  }
}

bool declares_more_than_it_has(const Plan& plan) {
  for (u32 tier = 0; tier < 2; ++tier)
    if (*std::ranges::max_element(plan.working_set[tier]) > plan.tiers[tier].budget.value) return true;
  return false;
}

struct Devices {
  u32 count = 1;
  Parallel parallel = Parallel::data;
};
std::string text(const Devices& d) { return std::to_string(d.count) + "_" + std::string(name(d.parallel)); }

void check(u32 seed, const Devices& devices, Counts& counts) {
  test::RandomCase c = test::random_case(seed, devices.count);
  c.options.parallel = devices.parallel;
  const ModelGraph graph = test::make_graph(c.shape);
  Result<Plan> plan = make_plan(graph, c.options);
  ++(plan ? counts.fitted : counts.advised);
  if (!plan) {
    const Error refusal = plan.error();
    const std::string& message = refusal.message;
    ASSERT_EQ(refusal.kind, ErrorKind::does_not_fit) << message;
    const PlanOptions had = c.options;
    ASSERT_EQ(refusal.changes.size(), 1u) << message;
    c.options.budgets = raised_by(refusal.changes.front(), had.budgets);
    for (const Setting& setting : refusal.changes.front().settings)
      EXPECT_NE(message.find("set " + setting_text(setting)), std::string::npos) << message;
    check_least(graph, had, c.options, counts);
    plan = make_plan(graph, c.options);
    ASSERT_TRUE(plan) << "followed '" << message << "' but: " << plan.error().message;
  }
  ASSERT_TRUE(verify_plan(*plan, graph));
  EXPECT_EQ(comm_bytes(*plan, SegmentKind::body).value > 0, plan->replicas() > 1);
  // Forced homes may lie in declared room, and without clipping docs/lower-bounds.md has an exception.
  if (c.options.home != HomePolicy::automatic || !c.options.clipping) return;
  const auto moved = link_bytes(*plan, SegmentKind::body), least = lower_bound(*plan, graph);
  // If a reserve for streaming from a disk is declared and nothing is on that disk, a plan used less memory
  // than it declared.
  const bool uses_disk = plan->tiers[static_cast<u32>(Tier::disk)].planned_peak.value > 0;
  const double part = declares_more_than_it_has(*plan) ? 0.9 : 1;  // docs/lower-bounds.md, "Plans"
  for (const LinkKind link : {LinkKind::h2d, LinkKind::d2h, LinkKind::disk_read, LinkKind::disk_write}) {
    const u32 l = static_cast<u32>(link);
    if (!uses_disk && (link == LinkKind::disk_read || link == LinkKind::disk_write)) continue;
    EXPECT_GE(static_cast<double>(moved[l].value), part * static_cast<double>(least[l].value)) << name(link);
  }
  if (const std::optional<u64> together = weighed_lower_bound(*plan, graph); together && uses_disk)
    EXPECT_GE(static_cast<double>(weighed(moved)), part * static_cast<double>(*together));
}

class PlannerProperty : public testing::TestWithParam<Devices> {};

TEST_P(PlannerProperty, EveryPlanVerifiesOrSaysWhatWouldFit) {
  Counts counts;
  const u32 all = GetParam().parallel == Parallel::layers ? 100 : GetParam().count == 1 ? 400 : 200;
  for (u32 seed = 0; seed < test::random_cases(all); ++seed) {
    SCOPED_TRACE(seed);
    check(seed, GetParam(), counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.fitted, test::random_cases(all / 10));
  EXPECT_GT(counts.advised, test::random_cases(all / 16));
  EXPECT_LT(counts.not_least * 20, counts.budgets);  // other sweeps or chunk sizes would fit in less
}
INSTANTIATE_TEST_SUITE_P(Devices, PlannerProperty,
                         testing::Values(Devices{1}, Devices{2}, Devices{3}, Devices{4},
                                         Devices{2, Parallel::layers}, Devices{3, Parallel::layers},
                                         Devices{4, Parallel::layers}),
                         [](const auto& info) { return text(info.param); });

// make_plan() refuses plans whose commit leaves out anything, or that write to a slot before the commit.
TEST(PlannerVersions, TwoAndThreeVersionsVerifyWhereverStateRests) {
  u32 fitted = 0, persisted = 0, on_disk = 0;
  for (u32 seed = 0; seed < test::random_cases(300); ++seed) {
    SCOPED_TRACE(seed);
    test::RandomCase c = test::random_case(seed, 1 + seed % 3);
    c.options.parallel = seed % 2 == 0 ? Parallel::data : Parallel::layers;
    if (c.options.devices == 1) c.options.parallel = Parallel::data;
    c.options.versions = 2 + seed / 3 % 2;
    c.options.speculates = seed % 4 > 1;
    c.options.advise = false;
    const ModelGraph graph = test::make_graph(c.shape);
    const Result<Plan> plan = make_plan(graph, c.options);
    if (!plan) {
      ASSERT_EQ(plan.error().kind, ErrorKind::does_not_fit) << plan.error().message;
      continue;
    }
    ++fitted;
    ASSERT_EQ(plan->versions, c.options.versions);
    ASSERT_EQ(plan->speculates, c.options.speculates && norm_counts(graph, c.options));
    ASSERT_FALSE(plan->speculates && plan->clipping);
    persisted += persisted_bytes(*plan, SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)].value > 0;
    on_disk += std::ranges::any_of(plan->homes,
                                   [](const Frame& f) { return f.bytes.value > 0 && f.tier == Tier::disk; });
  }
  EXPECT_GT(fitted, test::random_cases(60));
  EXPECT_GT(persisted, fitted / 10);
  EXPECT_GT(on_disk, fitted / 10);
}

TEST(PlannerDeterminism, SameInputsGiveTheSameText) {
  for (u32 seed = 0; seed < 20; ++seed) {
    const test::RandomCase c = test::random_case(seed, 1 + seed % 3);
    const ModelGraph graph = test::make_graph(c.shape);
    const Result<Plan> a = make_plan(graph, c.options), b = make_plan(graph, c.options);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    EXPECT_EQ(to_text(*a), to_text(*b)) << "seed " << seed;
  }
}

}  // namespace tidepool::property_test
