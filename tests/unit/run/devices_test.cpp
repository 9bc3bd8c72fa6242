// Devices that a config names, and messages about GPUs of a program without CUDA.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "config/validate.h"
#include "executor/gpu_reserved.h"
#include "fit/executor_choice.h"
#include "fit/job.h"
#include "inference/evaluate.h"
#include "inference/generate.h"
#include "tests/support/asked_plan.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::devices_test {

using ::testing::HasSubstr;

MachineConfig named(const std::string& executor) { return {.executor = executor}; }

TEST(ExecutorName, CountsDevices) {
  EXPECT_EQ(named("cpu").devices(), 1u);
  EXPECT_EQ(named("cpu:3").devices(), 3u);
  EXPECT_TRUE(named("cpu:3").gpus().empty());
  EXPECT_EQ(named("cuda").gpus(), std::vector<u32>{0});
  EXPECT_EQ(named("cuda:2").gpus(), std::vector<u32>{2});
  EXPECT_EQ(named("cuda:2").devices(), 1u);
  EXPECT_EQ(named("cuda:3,0").gpus(), (std::vector<u32>{3, 0}));
  EXPECT_EQ(named("cuda:3,0").devices(), 2u);
}

TEST(ExecutorName, OthersAreRefused) {
  const test::TrainDir dir;
  Config config = test::small_config(dir);
  for (const char* name : {"", "gpu", "cpu:", "cpu:0", "cpu:17", "cpu:1,2", "cuda:", "cuda:x", "cuda:1,",
                           "cuda:1,1", "cuda:-1", "cuda:0 "}) {
    config.machine.executor = name;
    const auto complaint = validate(config);
    ASSERT_TRUE(complaint) << name;
    EXPECT_EQ(complaint->key, "executor") << name;
  }
}

TEST(GpuPlans, ReserveMemoryThatIsNotInFrames) {
  const test::TrainDir dir;
  Config config = test::small_config(dir);
  config.machine.executor = "cuda";
  config.memory.budgets.device = Bytes{80 * mib};
  const Job job = make_job(config).value();
  const Bytes reserved = gpu_reserved(job.graph, 1).total();
  EXPECT_EQ(job.options.device_reserved, reserved);
  const Plan plan = make_plan(job.graph, job.options).value();
  u64 end = 0;
  for (const Segment& segment : plan.segments)
    for (const Operand& o : segment.operands)
      if (o.frame.tier == Tier::device) end = std::max(end, o.frame.end());
  EXPECT_LE(end + reserved.value, plan.tiers[0].planned_peak.value);
  EXPECT_LE(plan.tiers[0].planned_peak, config.memory.budgets.device);

  config.memory.budgets.device = reserved + Bytes{64 * kib};
  const auto tight = make_plan(job.graph, plan_options(config));
  ASSERT_FALSE(tight);
  EXPECT_EQ(tight.error().kind, ErrorKind::does_not_fit);
}

// This program has no CUDA, which it says before it takes any memory.
TEST(GpuPlans, ProgramsWithoutCudaSaySo) {
  const test::TrainDir dir;
  Config config = test::small_config(dir);
  config.machine.executor = "cuda";
  config.memory.budgets.device = Bytes{80 * mib};
  const auto report = train_model({.config = config, .quiet = true});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::usage);
  EXPECT_NE(report.error().message.find("machine.executor=cpu"), std::string::npos) << report.error().message;
}

// A GPU that the user names is required; a run's own GPU may be absent when the run is evaluated.
TEST(GpuPlans, OnlyARunsOwnGpuIsReplacedByCores) {
  const test::TrainDir dir;
  Config config = test::small_config(dir);
  config.train.max_steps = 1;
  ASSERT_TRUE(train_model({.config = config, .quiet = true}));
  std::vector<std::string> notes;
  const auto note = [&](const std::string& line) { notes.push_back(line); };
  for (const char* named : {"machine.executor=cuda", "executor=cuda:0"}) {
    const auto evaluated =
        evaluate_model({.source = config.output.dir, .overrides = {named}, .quiet = true, .note = note});
    ASSERT_FALSE(evaluated) << named;
    EXPECT_EQ(evaluated.error().kind, ErrorKind::usage);
    EXPECT_THAT(evaluated.error().message, HasSubstr("configure with -DTIDEPOOL_CUDA=ON"));
    const auto generated = generate_text(
        {.path = config.output.dir, .overrides = {named}, .generate = {.max_new_tokens = 1}, .note = note},
        [](std::string_view) {});
    ASSERT_FALSE(generated) << named;
    EXPECT_EQ(generated.error().kind, ErrorKind::usage);
  }
  EXPECT_THAT(notes, ::testing::IsEmpty());

  const std::string file = config.output.dir + "/config.yaml";
  std::string text = test::file_text(file);
  const u64 at = text.find("cpu", text.find("executor:"));
  ASSERT_NE(at, std::string::npos) << text;
  std::ofstream(file) << text.replace(at, 3, "cuda");
  const auto evaluated = evaluate_model({.source = config.output.dir, .quiet = true, .note = note});
  ASSERT_TRUE(evaluated) << evaluated.error().message;
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("computing on the cores, although the run used a GPU")));
}

TEST(GpuPlans, AutoIsTheCoresWithoutCuda) {
  Config config;
  config.machine.executor = "auto";
  EXPECT_EQ(config.machine.devices(), 1u);
  const std::string line = resolve_executor(config).value();
  EXPECT_NE(line.find("built without CUDA"), std::string::npos) << line;
  EXPECT_EQ(config.machine.executor, "cpu");
}

}  // namespace tidepool::devices_test
