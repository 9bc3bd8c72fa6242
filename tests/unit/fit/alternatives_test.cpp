// Advice for jobs that do not fit: only settings that the next call accepts, found with bounded work.
#include "fit/alternatives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "base/json/text.h"
#include "base/text/budget_text.h"
#include "cli/plan_refusal.h"
#include "config_files/load_config.h"
#include "fit/budget_room.h"
#include "fit/job.h"
#include "machine/gpu_headroom.h"
#include "planner/advice/change_text.h"
#include "tests/support/asked_plan.h"
#include "tests/support/train_fixture.h"

namespace tidepool::alternatives_test {

using test::TrainDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// A machine with a GPU and without a disk.
Machine box(Bytes device, Bytes host) {
  Machine m{.name = "box"};
  m.device.kind = DeviceKind::cuda;
  // Memory for this budget, plus the memory that a GPU takes beside it.
  m.device.memory = device;
  if (device.value > 0) m.device.memory += gpu_context + gpu_headroom(Bytes{}, 1).total();
  m.host.memory = host;
  return m;
}

Config config_with(const TrainDir& dir, Bytes device, Bytes host) {
  Config config = test::small_config(dir);
  config.memory.budgets = {device, host, Bytes{0}};
  return config;
}

BudgetRoom room_in(const Machine& machine) { return room_of(machine, PlanFor::machine_of_file, 1); }

Error refused(const Config& config, const std::optional<Machine>& machine,
              const AlternativesOptions& how = {}) {
  const PlanOptions options = plan_options(config, config.memory.budgets.disk);
  const Result<Plan> plan = make_plan(make_job(config).value().graph, options);
  EXPECT_FALSE(plan);
  if (plan) return {};
  return add_alternatives(make_job(config).value(), options, machine ? room_in(*machine) : BudgetRoom{},
                          plan.error(), how);
}

// Plans every advised setting with the budgets that the machine accepts.
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
    EXPECT_TRUE(room_in(machine).takes(options.budgets)) << error.message;
    EXPECT_TRUE(check_fits(make_job(*other).value().graph, options))
        << fmt::format("{}", fmt::join(overrides, " "));
  }
}

TEST(Alternatives, SearchesBudgetsIfAnErrorAdvisesNothing) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * mib}, Bytes{200 * kib});
  const Machine machine = box(Bytes{256 * mib}, Bytes{256 * mib});
  const PlanOptions options = plan_options(config, Bytes{0});
  const Error error = add_alternatives(make_job(config).value(), options, room_in(machine),
                                       {ErrorKind::does_not_fit, "the disk is too small as well"});
  EXPECT_THAT(error.message, HasSubstr("too small as well; set memory.host="));
  expect_taken(config, machine, error);
}

TEST(Alternatives, AMachineWithoutADiskIsNotAdvisedOne) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{200 * kib}, Bytes{2 * mib});
  ASSERT_THAT(refused(config, std::nullopt).message, HasSubstr("set memory.disk="));
  const Machine machine = box(Bytes{8 * gib}, Bytes{8 * gib});
  const Error error = refused(config, machine);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr(", but the machine has no disk"), Not(HasSubstr("memory.disk="))));
  expect_taken(config, machine, error);
}

TEST(Alternatives, AdvisesSeveralBudgetsIfNoSingleOneIsEnough) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{200 * kib}, Bytes{2 * mib});
  // Room for the windows but not for the state, which then lies in host memory.
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
  const Bytes page_tables{128 * kib};  // for a host budget of 64 MiB
  const Error error = refused(config, box(Bytes{100 * kib} + page_tables, Bytes{8 * gib}));
  EXPECT_THAT(error.message, HasSubstr(", but the machine has 100KiB for it"));
  EXPECT_THAT(error.message, EndsWith("use a smaller model or a larger machine"));
  EXPECT_THAT(error.message, Not(HasSubstr("set memory.")));
  const auto said = parse_json(refusal_json(error), ErrorKind::internal, "refusal");
  ASSERT_TRUE(said);
  EXPECT_TRUE(said->at("advice").as_object().empty());
  EXPECT_TRUE(said->at("alternatives").as_array().empty());
}

TEST(Alternatives, SaysThatASearchWasCutShort) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * mib}, Bytes{64 * kib});
  constexpr std::string_view cut = "was cut short";
  EXPECT_THAT(refused(config, std::nullopt).message, Not(HasSubstr(cut)));
  EXPECT_THAT(refused(config, std::nullopt, {.change_ops_max = 1}).message, EndsWith(cut));
}

TEST(Alternatives, ACutSearchDoesNotClaimThatNothingFits) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * mib}, Bytes{64 * kib});
  const Error error = refused(config, box(Bytes{8 * gib}, Bytes{100 * kib}), {.ops_max = 1});
  EXPECT_TRUE(error.changes.empty());
  EXPECT_THAT(error.message, EndsWith("; use a smaller model or a larger machine; other changes may fit: "
                                      "the search takes long and was cut short"));
}

// Regression: the advised budgets were the machine's whole memory.
TEST(Alternatives, BudgetsThatCouldNotBeTriedAreNotAdvised) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{200 * kib}, Bytes{2 * mib});
  ASSERT_GT(refused(config, std::nullopt).changes.size(), 1u);
  const Error error = refused(config, std::nullopt, {.change_ops_max = 1});
  EXPECT_EQ(error.changes.size(), 1u);  // the planner's change
  EXPECT_THAT(error.message, EndsWith("; or use a smaller model; other changes may fit: the search takes "
                                      "long and was cut short"));
}

TEST(Alternatives, TheMessageSaysTheChanges) {
  const TrainDir dir;
  Config config = config_with(dir, Bytes{5 * mib}, Bytes{16 * mib});
  config.train.per_device_train_batch_size = 64;
  const Error error = refused(config, std::nullopt);
  ASSERT_GT(error.changes.size(), 1u);
  const Change batch{
      {{"train.per_device_train_batch_size", "32"}, {"train.gradient_accumulation_steps", "2"}},
      "as many tokens per step"};
  EXPECT_THAT(error.changes, Contains(batch));
  for (const Setting& setting : error.changes.front().settings)
    EXPECT_THAT(error.message, HasSubstr("set " + setting_text(setting)));
  for (size_t i = 1; i < error.changes.size(); ++i)
    EXPECT_THAT(error.message, HasSubstr(change_text(error.changes[i])));
}

// 64 times as many micro-batches exceed the planner's limit, twice as many do not.
TEST(Alternatives, FindsASmallerBatchForManyMicroBatches) {
  const TrainDir dir;
  Config config = config_with(dir, Bytes{5 * mib}, Bytes{16 * mib});
  config.train.per_device_train_batch_size = 64;
  config.train.gradient_accumulation_steps = 72;
  config.memory.sweeps = 72;
  EXPECT_THAT(
      refused(config, std::nullopt).message,
      HasSubstr("train.per_device_train_batch_size=32 train.gradient_accumulation_steps=144 (as many"));
}

TEST(Alternatives, NamesBudgetsThatFitAloneAndNotTogether) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{200 * kib}, Bytes{2 * mib});
  const BudgetRoom room{.machine = "box", .host = Bytes{7 * mib}, .is_shared = true};
  const Change advice{
      {budget_setting(Tier::device, Bytes{3 * mib}), budget_setting(Tier::host, Bytes{5 * mib})}, ""};
  const Error error = add_alternatives(make_job(config).value(), plan_options(config, Bytes{0}), room,
                                       {ErrorKind::does_not_fit, "the job does not fit", {advice}});
  EXPECT_THAT(error.message,
              HasSubstr("; memory.device=3.00 MiB for each of 1 device and memory.host=5.00 MiB share the "
                        "host's memory, and need more than box has (7.00 MiB)"));
}

TEST(Alternatives, ReportsEachAttemptToTheCaller) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * kib}, Bytes{64 * mib});
  std::vector<std::string> told;
  refused(config, std::nullopt, {.trying = [&](std::string_view change) { told.emplace_back(change); }});
  EXPECT_THAT(told, Contains("weights in 16 bits"));
}

TEST(SearchWork, ACutSearchMakesItsFirstAttempt) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * mib}, Bytes{64 * kib});
  const Job job = make_job(config).value();
  PlanOptions options = plan_options(config, Bytes{0});
  options.advise = false;
  SearchWork whole{.ops_max = ~u64{0}}, cut{.ops_max = 1};
  EXPECT_FALSE(check_fits(job.graph, options, &whole));
  EXPECT_FALSE(check_fits(job.graph, options, &cut));
  EXPECT_FALSE(whole.cut);
  EXPECT_TRUE(cut.cut);
  EXPECT_GT(cut.ops, 0u);
  EXPECT_GT(whole.ops, cut.ops);
}

TEST(SearchWork, CountsTheSearchForTheLeastBudgets) {
  const TrainDir dir;
  const Config config = config_with(dir, Bytes{64 * kib}, Bytes{64 * mib});
  const Job job = make_job(config).value();
  const PlanOptions options = plan_options(config, Bytes{0});
  PlanOptions larger = options;
  larger.budgets.device = Bytes{8 * mib};
  SearchWork once{.ops_max = ~u64{0}}, lowered{.ops_max = ~u64{0}};
  ASSERT_TRUE(check_fits(job.graph, larger, &once));
  ASSERT_TRUE(least_budgets(job.graph, options, larger.budgets, &lowered));
  EXPECT_GE(lowered.ops, once.ops);
}

TEST(BudgetRoom, DevicesMadeOfCoresShareTheHost) {
  Machine machine = box(Bytes{}, Bytes{128 * gib});
  machine.device.kind = DeviceKind::cpu;
  const BudgetRoom room = room_of(machine, PlanFor::machine_of_file, 2);
  const Budgets had{Bytes{gib}, Bytes{100 * gib}, Bytes{0}};
  EXPECT_EQ(room.most(had, Tier::device), Bytes{14 * gib});
  EXPECT_EQ(room.most(had, Tier::host), Bytes{126 * gib});
  EXPECT_TRUE(room.takes({Bytes{4 * gib}, Bytes{120 * gib}, Bytes{0}}));
  EXPECT_FALSE(room.takes({Bytes{5 * gib}, Bytes{120 * gib}, Bytes{0}}));
}

// 24 GB are slightly more than 22888 MiB, of which page tables of a GiB take two: a value for a config must
// be rounded down.
TEST(BudgetRoom, IsRoundedToValuesOfAConfig) {
  const BudgetRoom room = room_in(box(Bytes{24'000'000'000}, Bytes{}));
  const Budgets had{Bytes{gib}, Bytes{gib}, Bytes{0}};
  EXPECT_EQ(budget_text(room.most(had, Tier::device).value()), "22886MiB");
  EXPECT_EQ(room.most(had, Tier::host), std::nullopt);
}

// A V100's 32 GiB with 232 GiB of pinned memory: 453 MiB of page tables, NCCL, kernels and the context.
TEST(BudgetRoom, AGpuHoldsMoreThanItsBudget) {
  Machine machine = box(Bytes{}, Bytes{240 * gib});
  machine.device.memory = Bytes{32 * gib};
  const BudgetRoom room = room_of(machine, PlanFor::machine_of_file, 8);
  const Budgets greedy{Bytes{31 * gib}, Bytes{232 * gib}, Bytes{0}};
  EXPECT_FALSE(room.takes(greedy));
  EXPECT_THAT(
      shared_memory_text(room, greedy),
      HasSubstr(
          "memory.device=31.0 GiB leaves too little memory of each GPU of box (32.0 GiB): the context takes "
          "512 MiB, and a run 0.83 GiB beside it (page tables of 232.00 GiB of pinned memory 0.45, "
          "NCCL 0.25, kernels 0.12)"));
  Budgets most = greedy;
  most.device = Bytes{gib};
  most.device = room.most(most, Tier::device).value();
  EXPECT_TRUE(room.takes(most));
  EXPECT_GT(most.device, Bytes{30 * gib});
  most.device = Bytes{31 * gib}, most.host = Bytes{gib};
  most.host = room.most(most, Tier::host).value();
  EXPECT_TRUE(room.takes(most)) << "page tables of more host memory would take too much of the GPU";
  EXPECT_LT(most.host, Bytes{100 * gib});
}

TEST(BudgetRoom, ThisMachinesDiskIsNotTheFiles) {
  Machine machine = box(Bytes{}, Bytes{});
  EXPECT_EQ(room_of(machine, PlanFor::machine_of_file, 1).disk, Bytes{0});
  EXPECT_EQ(room_of(machine, PlanFor::this_machine, 1).disk, std::nullopt);
  machine.disk.capacity = Bytes{gib};
  EXPECT_EQ(room_of(machine, PlanFor::machine_of_file, 1).disk, Bytes{gib});
  EXPECT_EQ(room_of(machine, PlanFor::this_machine, 1).disk, std::nullopt);
}

}  // namespace tidepool::alternatives_test
