// What is advised where a job does not fit: only what the next call takes, and found in bounded work.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "cli/plan_refusal.h"
#include "json/text.h"
#include "tests/support/train_fixture.h"
#include "text/budget_text.h"
#include "trainer/alternatives.h"
#include "trainer/budget_room.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TrainDir;

// A GPU's, without a disk.
Machine box(Bytes device, Bytes host) {
  Machine m{.name = "box"};
  m.device.kind = DeviceKind::cuda;
  m.device.memory = device;
  m.host.memory = host;
  return m;
}

Config config_with(const TrainDir& dir, Bytes device, Bytes host) {
  Config config = testing::small_config(dir);
  config.memory.budgets = {device, host, Bytes{0}};
  return config;
}

Error refused(const Config& config, const std::optional<Machine>& machine, u64 ops_max = change_ops_max) {
  const PlanOptions options = plan_options(config, config.memory.budgets.disk);
  const Result<Plan> plan = make_plan(make_graph(config).value(), options);
  EXPECT_FALSE(plan);
  if (plan) return {};
  return add_alternatives(config, options, machine, plan.error(), ops_max);
}

// All that is advised, each of it planned with the budgets that the machine takes.
void expect_taken(const Config& config, const Machine& machine, const Error& error) {
  const auto said = parse_json(refusal_json(error), ErrorKind::internal, "refusal");
  ASSERT_TRUE(said) << error.message;
  boost::json::array all = said->at("alternatives").as_array();
  all.push_back(said->at("advice"));
  for (const auto& settings : all) {
    std::vector<std::string> overrides;
    for (const auto& [key, value] : settings.as_object())
      overrides.push_back(fmt::format("{}={}", std::string(key), std::string(value.as_string())));
    ASSERT_FALSE(overrides.empty()) << error.message;
    const auto other = parse_config(to_yaml(config), "config", overrides);
    ASSERT_TRUE(other) << other.error().message;
    const PlanOptions options = plan_options(*other, other->memory.budgets.disk);
    EXPECT_TRUE(takes_budgets(machine, plan_options(config, config.memory.budgets.disk), options.budgets))
        << error.message;
    EXPECT_TRUE(check_fits(make_graph(*other).value(), options))
        << fmt::format("{}", fmt::join(overrides, " "));
  }
}

TEST(Alternatives, AMachineWithoutADiskIsNotAdvisedOne) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{200 * kib}, Bytes{2 * mib});
  ASSERT_THAT(refused(config, std::nullopt).message, HasSubstr("set memory.disk="));
  const Machine machine = box(Bytes{8 * gib}, Bytes{8 * gib});
  const Error error = refused(config, machine);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr(", and the machine has no disk"), Not(HasSubstr("memory.disk="))));
  expect_taken(config, machine, error);
}

TEST(Alternatives, WhereNoOneBudgetIsEnoughSeveralAreAdvised) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{200 * kib}, Bytes{2 * mib});
  // As much as makes room for the windows and not for the state, which then lies in the host.
  const Machine machine = box(Bytes{1 * mib}, Bytes{8 * gib});
  const Error error = refused(config, machine);
  EXPECT_THAT(error.message, HasSubstr("set memory.device="));
  EXPECT_THAT(error.message, HasSubstr(" memory.host="));
  expect_taken(config, machine, error);
}

TEST(Alternatives, ABudgetAboveTheMachineIsNotAdvised) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * kib}, Bytes{64 * mib});
  ASSERT_THAT(refused(config, std::nullopt).message, HasSubstr("set memory.device="));
  const Error error = refused(config, box(Bytes{100 * kib}, Bytes{8 * gib}));
  EXPECT_THAT(error.message, HasSubstr(", and the machine has 100KiB for it"));
  EXPECT_THAT(error.message, EndsWith("use a smaller model, or a machine that has more"));
  EXPECT_THAT(error.message, Not(HasSubstr("set memory.")));
  const auto said = parse_json(refusal_json(error), ErrorKind::internal, "refusal");
  ASSERT_TRUE(said);
  EXPECT_TRUE(said->at("advice").as_object().empty());
  EXPECT_TRUE(said->at("alternatives").as_array().empty());
}

TEST(Alternatives, ASearchThatIsCutShortIsSaid) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * kib}, Bytes{64 * mib});
  constexpr std::string_view cut = "was cut short";
  EXPECT_THAT(refused(config, std::nullopt).message, Not(HasSubstr(cut)));
  EXPECT_THAT(refused(config, std::nullopt, 1).message, EndsWith(cut));
}

TEST(SearchWork, OfASearchThatIsCutTheFirstAttemptIsMade) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * kib}, Bytes{64 * mib});
  const ModelGraph graph = make_graph(config).value();
  PlanOptions options = plan_options(config, Bytes{0});
  options.advise = false;
  SearchWork whole{.ops_max = ~u64{0}}, cut{.ops_max = 1};
  EXPECT_FALSE(check_fits(graph, options, &whole));
  EXPECT_FALSE(check_fits(graph, options, &cut));
  EXPECT_FALSE(whole.cut);
  EXPECT_TRUE(cut.cut);
  EXPECT_GT(cut.ops, 0u);
  EXPECT_GT(whole.ops, cut.ops);
}

TEST(BudgetRoom, DevicesMadeOfCoresShareTheHost) {
  Machine machine = box(Bytes{}, Bytes{128 * gib});
  machine.device.kind = DeviceKind::cpu;
  PlanOptions options{.budgets = {Bytes{gib}, Bytes{100 * gib}, Bytes{0}}, .devices = 2};
  EXPECT_EQ(budget_most(machine, options, Tier::device), Bytes{14 * gib});
  EXPECT_EQ(budget_most(machine, options, Tier::host), Bytes{126 * gib});
  EXPECT_TRUE(takes_budgets(machine, options, {Bytes{4 * gib}, Bytes{120 * gib}, Bytes{0}}));
  EXPECT_FALSE(takes_budgets(machine, options, {Bytes{5 * gib}, Bytes{120 * gib}, Bytes{0}}));
}

// 24 GB are 22888 MiB and a bit: what a config can say must not be more than there is.
TEST(BudgetRoom, IsWhatAConfigCanSay) {
  Machine machine = box(Bytes{24'000'000'000}, Bytes{});
  PlanOptions options{.budgets = {Bytes{gib}, Bytes{gib}, Bytes{0}}};
  EXPECT_EQ(budget_text(budget_most(machine, options, Tier::device).value()), "22888MiB");
  EXPECT_EQ(budget_most(machine, options, Tier::host), std::nullopt);
  EXPECT_EQ(budget_most(machine, options, Tier::disk), Bytes{0});
  options.budgets.disk = Bytes{gib};  // this computer's
  EXPECT_EQ(budget_most(machine, options, Tier::disk), std::nullopt);
}

}  // namespace
}  // namespace tidepool
