// `train` and `tidepool plan` make one plan: by bytes, or by the time that a machine file predicts.
#include "fit/plan_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <fstream>

#include "base/json/text.h"
#include "cli/plan_refusal.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "machine/machine_file.h"
#include "tests/support/asked_plan.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::plan_run_test {

using test::TrainDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Writes a machine file with a slow disk and fast copies, changed as the test asks.
std::string write_machine(const TrainDir& dir, const std::string& name, void (*change)(Machine&)) {
  Machine m{.name = name};
  m.device.memory = m.host.memory = Bytes{8 * gib};
  m.disk = {
      .capacity = Bytes{gib}, .read_bytes_per_s = 1e8, .write_bytes_per_s = 1e8, .mixed_bytes_per_s = 1e8};
  change(m);
  const std::string path = dir / (name + ".yaml");
  std::ofstream(path) << to_yaml(m);
  return path;
}

Config tight_config(const TrainDir& dir) {
  Config c = test::small_config(dir);
  c.memory.budgets = {Bytes{2 * mib}, Bytes{3 * mib}, disk_auto};
  c.train.gradient_accumulation_steps = 4;
  return c;
}

std::string text_of(const Config& config, PlanFor who) {
  const auto plan = plan_run(make_job(config).value(), who);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? plan_text(config, plan->plan) : "";
}

TEST(PlanRun, WithoutAFilePlansByBytes) {
  const TrainDir dir;
  const Config config = tight_config(dir);
  const Job job = make_job(config).value();
  const auto plan = plan_run(job, PlanFor::this_machine);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->forecast.has_value());
  EXPECT_EQ(plan_text(config, plan->plan), plan_text(config, make_plan(job.graph, plan->options).value()));
  EXPECT_TRUE(describe_choice(config, *plan).empty());
}

// RETURNS: alternatives that plan_run advises beside the first advice, as overrides. Plans each of them, and
// the first.
std::vector<std::string> followed_alternatives(const Config& config) {
  std::vector<std::string> all;
  const auto refused = plan_run(make_job(config).value(), PlanFor::this_machine);
  EXPECT_FALSE(refused);
  if (refused) return all;
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  const auto said = parse_json(refusal_json(refused.error()), ErrorKind::internal, "refusal");
  EXPECT_TRUE(said) << refused.error().message;
  boost::json::array follow = said->at("alternatives").as_array();
  follow.push_back(said->at("advice"));
  for (const auto& settings : follow) {
    std::vector<std::string> overrides;
    for (const auto& [key, value] : settings.as_object())
      overrides.push_back(std::string(key) + "=" + std::string(value.as_string()));
    all.push_back(fmt::format("{}", fmt::join(overrides, " ")));
    const auto other = parse_config(to_yaml(config), "config", overrides);
    EXPECT_TRUE(other && plan_run(make_job(*other).value(), PlanFor::this_machine)) << all.back();
  }
  all.pop_back();
  return all;
}

Config too_large(const TrainDir& dir) {
  Config config = test::small_config(dir);
  config.model.positions = config.train.sequence_length = 256;
  config.train.per_device_train_batch_size = 8;
  config.memory.budgets = {Bytes{4 * mib}, Bytes{16 * mib}, disk_auto};
  return config;
}

TEST(PlanRun, NamesASmallerJobThatFits) {
  const TrainDir dir;
  const Config config = too_large(dir);
  EXPECT_THAT(followed_alternatives(config),
              ElementsAre(HasSubstr("per_device_train_batch_size"), HasSubstr("sequence_length")));
}

// Regression: the advice named a number of sequences and a precision that the checkpoint then refused.
TEST(PlanRun, AdvisesAResumedRunOnlyWhatItsCheckpointAllows) {
  const TrainDir dir;
  const Config config = too_large(dir);
  const Job job = make_job(config).value();
  const auto begins = plan_run(job, PlanFor::this_machine), goes_on = plan_run(job, PlanFor::resumed_run);
  ASSERT_TRUE(!begins && !goes_on);
  EXPECT_THAT(begins.error().message, HasSubstr("train.sequence_length="));
  EXPECT_THAT(goes_on.error().message, HasSubstr("train.per_device_train_batch_size="));
  for (const char* other : {"train.sequence_length=", "train.precision="})
    EXPECT_THAT(goes_on.error().message, ::testing::Not(HasSubstr(other)));
}

TEST(PlanRun, NamesASingleBudgetIfSeveralAreShort) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.budgets = {Bytes{200 * kib}, Bytes{2 * mib}, Bytes{0}};
  EXPECT_THAT(followed_alternatives(config), ElementsAre(StartsWith("memory.device=")));
}

// If a window does not fit, fewer tokens do not help, so no smaller job is advised.
TEST(PlanRun, NamesNoSmallerJobIfNoneFits) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.budgets = {Bytes{64 * kib}, Bytes{8 * mib}, disk_auto};
  const auto refused = plan_run(make_job(config).value(), PlanFor::this_machine);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("; or use a smaller model"));
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("train.")));
}

// train uses this machine's disk, which the file does not describe.
TEST(PlanRun, TrainMayBeAdvisedADiskThatTheFileLacks) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.budgets = {Bytes{200 * kib}, Bytes{2 * mib}, Bytes{0}};
  config.machine.file = write_machine(dir, "cores", [](Machine& m) { m.disk = {}; });
  const Job job = make_job(config).value();
  const auto train = plan_run(job, PlanFor::this_machine), plan = plan_run(job, PlanFor::machine_of_file);
  ASSERT_FALSE(train || plan);
  EXPECT_THAT(train.error().message, HasSubstr("set memory.disk="));
  EXPECT_THAT(plan.error().message, HasSubstr("but the machine has no disk"));
}

// The pages of the plan and the report state the same bytes of a steady step; means of a short run differ.
TEST(PlanRun, AReportHasThePlansSteadyStep) {
  const TrainDir dir;
  const Config config = tight_config(dir);
  const auto plan = plan_run(make_job(config).value(), PlanFor::this_machine);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto report = test::run(config);
  ASSERT_TRUE(report) << report.error().message;
  const auto steady = link_bytes(plan->plan, SegmentKind::body);
  bool mean_differs = false;
  for (u32 l = 0; l < link_count; ++l) {
    EXPECT_EQ(report->links[l].planned_steady, steady[l]);
    mean_differs = mean_differs || report->links[l].planned != steady[l] * report->steps;
  }
  EXPECT_TRUE(mean_differs);
}

TEST(PlanRun, TrainAndPlanChooseTheSameAndAlwaysTheSame) {
  const TrainDir dir;
  Config config = tight_config(dir);
  const std::string by_bytes = text_of(config, PlanFor::this_machine);
  config.machine.file = write_machine(dir, "here", [](Machine&) {});
  const std::string train = text_of(config, PlanFor::this_machine);
  EXPECT_EQ(train, text_of(config, PlanFor::this_machine));
  EXPECT_EQ(train, text_of(config, PlanFor::machine_of_file));
  const auto plan = plan_run(make_job(config).value(), PlanFor::this_machine);
  ASSERT_TRUE(plan && plan->forecast);
  EXPECT_GT(plan->candidates, 1u);
  EXPECT_THAT(describe_choice(config, *plan).at(0),
              HasSubstr("chosen by the rates of " + config.machine.file));
  const auto before =
      forecast(make_plan(make_job(config).value().graph, plan_options(config, Bytes{gib})).value(),
               make_job(config).value().graph, *plan->machine);
  EXPECT_LE(plan->forecast->step_seconds, before->step_seconds);
}

TEST(PlanRun, TheShorthandIsTheSameKey) {
  const TrainDir dir;
  const std::string yaml = to_yaml(tight_config(dir));
  const auto shorthand = parse_config(yaml, "c.yaml", {"machine=m.yaml"}),
             full = parse_config(yaml, "c.yaml", {"machine.file=m.yaml"});
  ASSERT_TRUE(shorthand && full) << shorthand.error().message;
  EXPECT_EQ(shorthand->machine.file, "m.yaml");
  EXPECT_EQ(*shorthand, *full);
}

TEST(PlanRun, TrainRefusesDevicesThatItCannotRunOn) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.machine.file =
      write_machine(dir, "box", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = 2; });
  const auto train = question_of(config, PlanFor::this_machine);
  ASSERT_FALSE(train);
  EXPECT_EQ(train.error().kind, ErrorKind::usage);
  EXPECT_THAT(train.error().message, HasSubstr("tidepool probe"));
}

// Uses all GPUs of the file, with activations in GPU precision and room for memory outside frames.
TEST(PlanRun, PlansForTheGpusOfTheFile) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.memory.budgets.device = Bytes{128 * mib};
  config.train.precision = Precision::bf16;
  config.machine.file =
      write_machine(dir, "box", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = 2; });
  const Config there = on_machine(config, machine_of_file(config).value());
  const auto plan = question_of(there, PlanFor::machine_of_file);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->options.devices, 2u);
  EXPECT_EQ(plan->options.micro_batches, 8u);
  EXPECT_GT(plan->options.device_reserved, Bytes{64 * mib});
  EXPECT_EQ(make_job(there)->graph.activations, Precision::bf16);
  EXPECT_EQ(make_job(config)->graph.activations, Precision::fp32);

  config.machine.executor = "cuda:1";  // named: only this GPU
  EXPECT_EQ(on_machine(config, machine_of_file(config).value()).machine.executor, "cuda:1");
}

// Also on a machine with a GPU.
TEST(PlanRun, AutoTakesTheDevicesOfTheFile) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.machine.executor = "auto";
  config.machine.file = write_machine(dir, "cores", [](Machine&) {});
  EXPECT_EQ(on_machine(config, machine_of_file(config).value()).machine.executor, "cpu");
  config.machine.file =
      write_machine(dir, "box", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = 2; });
  EXPECT_EQ(on_machine(config, machine_of_file(config).value()).machine.executor, "cuda:0,1");
}

// RETURNS: why `plan` refuses that executor for the config's file; empty: it is accepted.
std::string refusal_of(Config config, const std::string& executor) {
  config.machine.executor = executor;
  const auto question =
      question_of(on_machine(config, machine_of_file(config).value()), PlanFor::machine_of_file);
  if (question) return "";
  EXPECT_EQ(question.error().kind, ErrorKind::usage) << executor;
  return question.error().message;
}

TEST(PlanRun, RefusesGpusThatTheFileLacks) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.memory.budgets.device = Bytes{128 * mib};
  config.machine.file = write_machine(dir, "one", [](Machine& m) { m.device.kind = DeviceKind::cuda; });
  EXPECT_THAT(refusal_of(config, "cuda:0,1"), HasSubstr("names GPU 1, but " + config.machine.file +
                                                        " has 1 (device.count), counted from 0: "
                                                        "write machine.executor=cuda:0"));
  EXPECT_EQ(refusal_of(config, "cuda"), "");
  config.machine.file =
      write_machine(dir, "eight", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = 8; });
  EXPECT_THAT(refusal_of(config, "cuda:8"), HasSubstr("name GPUs from 0 to 7"));
  for (const char* executor : {"cuda:0,2", "cuda:7", "auto", "cpu", "cpu:1"})
    EXPECT_EQ(refusal_of(config, executor), "") << executor;
}

TEST(PlanRun, RefusesDevicesOfAnotherKindThanTheFiles) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.memory.budgets.device = Bytes{128 * mib};
  config.machine.file = write_machine(dir, "cores", [](Machine&) {});
  EXPECT_THAT(refusal_of(config, "cuda:0,1"), HasSubstr("kind cpu: write machine.executor=cpu, or cpu:N"));
  EXPECT_EQ(refusal_of(config, "cpu:2"), "");
  config.machine.file =
      write_machine(dir, "box", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = 2; });
  EXPECT_THAT(refusal_of(config, "cpu:2"), HasSubstr("kind cuda: write machine.executor=auto for all"));
}

TEST(PlanRun, AFileWithTooManyGpusNeedsSomeNamed) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.memory.budgets.device = Bytes{128 * mib};
  config.machine.file = write_machine(
      dir, "many", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = devices_max + 1; });
  for (const char* executor : {"cpu", "auto"})
    EXPECT_THAT(refusal_of(config, executor),
                HasSubstr("17 devices (device.count), but a run takes at most 16"));
  EXPECT_EQ(refusal_of(config, "cuda:0,16"), "");
}

TEST(PlanRun, AcceptsTheExecutorThatItAdvises) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.memory.budgets.device = Bytes{128 * mib};
  const auto expect_mended = [&](const std::string& file, const std::string& executor) {
    config.machine.file = file;
    config.machine.executor = executor;
    const Config there = on_machine(config, machine_of_file(config).value());
    const auto question = question_of(there, PlanFor::machine_of_file);
    ASSERT_FALSE(question) << executor;
    ASSERT_EQ(question.error().changes.size(), 1u) << question.error().message;
    const Setting advised = question.error().changes.front().settings.at(0);
    EXPECT_EQ(advised.key, "machine.executor");
    EXPECT_EQ(refusal_of(config, advised.value), "") << advised.value;
  };
  const auto gpus = [&](const std::string& name, void (*change)(Machine&)) {
    return write_machine(dir, name, change);
  };
  expect_mended(gpus("cores", [](Machine&) {}), "cuda:0,1");
  expect_mended(gpus("one", [](Machine& m) { m.device.kind = DeviceKind::cuda; }), "cuda:1");
  const std::string two =
      gpus("two", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = 2; });
  expect_mended(two, "cuda:2");
  expect_mended(two, "cpu:2");
  const std::string many =
      gpus("many", [](Machine& m) { m.device.kind = DeviceKind::cuda, m.device.count = devices_max + 1; });
  expect_mended(many, "cuda:17");
  expect_mended(many, "auto");
  expect_mended(many, "cpu:2");
}

TEST(PlanRun, UsesTheSwitchesOfTheNamedGpus) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.memory.budgets.device = Bytes{128 * mib};
  config.machine.file = write_machine(dir, "box", [](Machine& m) {
    m.device.kind = DeviceKind::cuda, m.device.count = 4;
    m.copies.switches = {{0, 1}, {2, 3}}, m.copies.switch_bytes_per_s = 1e9;
  });
  for (const PlanFor who : {PlanFor::this_machine, PlanFor::machine_of_file}) {
    const auto switches_of = [&](const char* executor) {
      config.machine.executor = executor;
      return question_of(config, who).value().machine->copies.switches;
    };
    EXPECT_THAT(switches_of("cuda:2,3"), ElementsAre(ElementsAre(0, 1)));
    EXPECT_THAT(switches_of("cuda:0,2"), ElementsAre(ElementsAre(0), ElementsAre(1)));
  }
}

TEST(PlanRun, ACpuIsCutIntoTheDevicesOfTheConfig) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.machine.executor = "cpu:2";
  config.machine.file = write_machine(dir, "here", [](Machine&) {});
  EXPECT_EQ(question_of(config, PlanFor::machine_of_file).value().options.devices, 2u);
  EXPECT_EQ(text_of(config, PlanFor::machine_of_file), text_of(config, PlanFor::this_machine));
}

TEST(PlanRun, BudgetsAboveTheMachineDoNotFit) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.machine.file = write_machine(dir, "small", [](Machine& m) { m.host.memory = Bytes{2 * mib}; });
  for (const PlanFor who : {PlanFor::this_machine, PlanFor::machine_of_file}) {
    const auto question = question_of(config, who);
    ASSERT_FALSE(question);
    EXPECT_EQ(question.error().kind, ErrorKind::does_not_fit);
    EXPECT_THAT(question.error().message, HasSubstr("memory.host"));
  }
}

TEST(PlanRun, DevicesMadeOfCoresShareTheHostsMemory) {
  const TrainDir dir;
  Config config = tight_config(dir);  // 2 MiB on each device, 3 MiB on the host
  config.machine.file = write_machine(dir, "small", [](Machine& m) { m.host.memory = Bytes{7 * mib}; });
  for (const PlanFor who : {PlanFor::this_machine, PlanFor::machine_of_file}) {
    config.machine.executor = "cpu:2";
    EXPECT_TRUE(question_of(config, who));
    config.machine.executor = "cpu:3";
    const auto question = question_of(config, who);
    ASSERT_FALSE(question);
    EXPECT_EQ(question.error().kind, ErrorKind::does_not_fit);
    EXPECT_THAT(question.error().message,
                HasSubstr("memory.device=2.00 MiB for each of 3 devices and memory.host=3.00 MiB"));
  }
}

// train uses this machine's disk, which may have more free space than when it was probed.
TEST(PlanRun, ADiskBudgetAboveTheMachinesDoesNotFit) {
  const TrainDir dir;
  Config config = tight_config(dir);
  config.machine.file = write_machine(dir, "here", [](Machine&) {});  // a disk of 1 GiB
  EXPECT_EQ(question_of(config, PlanFor::machine_of_file)->options.budgets.disk, Bytes{gib});
  config.memory.budgets.disk = Bytes{gib};
  EXPECT_TRUE(question_of(config, PlanFor::machine_of_file));
  config.memory.budgets.disk = Bytes{2 * gib};
  EXPECT_TRUE(question_of(config, PlanFor::this_machine));
  const auto question = question_of(config, PlanFor::machine_of_file);
  ASSERT_FALSE(question);
  EXPECT_EQ(question.error().kind, ErrorKind::does_not_fit);
  EXPECT_THAT(question.error().message, HasSubstr("memory.disk=2.00 GiB is more than here has (1.00 GiB)"));
}

TEST(PlanRun, NotesAnotherMachine) {
  Config config;
  config.machine.file = "m.yaml";
  Machine machine;
  machine.host.cores = 4;
  machine.host.name = "Some CPU";
  EXPECT_EQ(machine_mismatch(config, machine, 4, "Some CPU"), "");
  EXPECT_EQ(machine_mismatch(config, machine, 4, ""), "");
  EXPECT_THAT(machine_mismatch(config, machine, 2, "Some CPU"),
              HasSubstr("m.yaml describes 4 cores, but this run has 2:"));
  EXPECT_THAT(machine_mismatch(config, machine, 4, "Another"),
              HasSubstr("4 cores of Some CPU, but this run has 4 of Another:"));
}

// Numbers are the same as with any plan, and a resumed run keeps its plan.
TEST(PlanRun, TrainingByAFileChangesNoNumber) {
  const TrainDir dir;
  Config config = tight_config(dir);
  const auto expected = test::train_numbers(config);
  config.machine.file =
      write_machine(dir, "here", [](Machine& m) { m.disk.endurance = Bytes{1'000'000'000'000}; });
  config.output.dir = dir / "timed";
  const auto stopped = test::run(config, {.stop_after = 2});
  ASSERT_FALSE(stopped);
  const std::string before = test::file_text(config.output.dir + "/plan.txt");
  const auto report = test::run(config, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(test::numbers_of(*report), expected);
  EXPECT_EQ(report->disk_endurance, Bytes{1'000'000'000'000});
  EXPECT_EQ(test::file_text(config.output.dir + "/plan.txt"), before);
}

}  // namespace tidepool::plan_run_test
