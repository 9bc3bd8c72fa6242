// Whole runs that are disturbed: the right exit code, a message that names the cause, an intact last
// checkpoint, and after repair the numbers of an undisturbed run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "config_files/load_config.h"
#include "io/swap_file.h"
#include "planner/advice/change_text.h"
#include "report/run_report.h"
#include "run/outputs/signals.h"
#include "tests/support/child_run.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/train_fixture.h"

namespace tidepool::train_fault_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::TrainDir;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// All state streams from and to the disk; steps are long enough to be interrupted.
Config streaming_config(const TrainDir& dir, const std::string& run = "run") {
  Config c = test::small_config(dir, run);
  c.train.max_steps = 25;
  c.train.gradient_accumulation_steps = 4;
  c.memory.home = HomePolicy::disk;
  c.memory.chunk_size = Bytes{40 * kib};
  c.output.save_steps = 5;
  return c;
}

void expect_error(const Config& config, ErrorKind kind, const std::string& words,
                  const std::string& resume = "") {
  SCOPED_TRACE(how_to_repeat(config));
  const auto report = test::run(config, {.resume = resume});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, kind) << report.error().message;
  EXPECT_THAT(report.error().message, HasSubstr(words));
}

// ---- faults in the middle of training

// Repeats `harm`: at some moments all state is in memory and will be written again.
void until_it_ends(ChildRun& child, const std::function<void()>& harm) {
  while (!child.ended()) {
    harm();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void cut_short(const std::string& path) {
  std::error_code gone;
  fs::resize_file(path, 0, gone);
}

class FaultInTraining : public ::testing::Test {
 protected:
  // Trains until step 8 is logged and checkpoint 5 is there, and calls `harm`; tries again if, on a busy
  // machine, the run has ended before. RETURNS: the exit code.
  int train_and(const Config& config, const std::function<void(ChildRun&)>& harm) {
    for (u32 tries = 0; tries < 5; ++tries) {
      fs::remove_all(config.output.dir);
      ChildRun child(config);
      const auto saved = [&] { return fs::exists(config.output.dir + "/checkpoint-5"); };
      bool in_time = child.wait_for_steps(8);
      while (in_time && !saved()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        in_time = !child.ended();
      }
      if (in_time) harm(child);
      const int code = child.wait();
      output_ = child.output();
      if (in_time || code != 0) return code;
    }
    ADD_FAILURE() << "never came in time to do harm";
    return 0;
  }

  // Expects that the run resumes from a good checkpoint and ends with the numbers of a run without a fault:
  // with --resume auto, or as it advises if later steps were committed in a file that is damaged now.
  void expect_resumes(const Config& config, const Numbers& undisturbed) {
    auto report = test::run(config, {.resume = "auto"});
    if (!report && report.error().kind == ErrorKind::usage)
      report =
          test::run(config, {.resume = test::word_after(report.error().message, "without it: --resume ")});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_GE(report->resumed_from_step, 5u);
    EXPECT_EQ(numbers_of(*report), undisturbed);
  }

  Numbers undisturbed(const Config& config) {
    Config whole = config;
    whole.output.dir = dir_ / "whole";
    whole.memory.swap_dir.clear();
    whole.output.save_steps = 0;
    return test::train_numbers(whole);
  }

  const TrainDir dir_;
  std::string output_;
};

TEST_F(FaultInTraining, ATruncatedSwapFileEndsTheRun) {
  Config config = streaming_config(dir_);
  config.output.persist_steps = 1;
  SCOPED_TRACE(how_to_repeat(config));
  const int code = train_and(config, [&](ChildRun& child) {
    until_it_ends(child, [&] { cut_short(config.output.dir + "/swap/tidepool.swap"); });
  });
  ASSERT_EQ(code, 6) << output_;
  EXPECT_THAT(output_, AnyOf(HasSubstr("tidepool.swap"), HasSubstr("checksum mismatch")));
  expect_resumes(config, undisturbed(config));
}

TEST_F(FaultInTraining, AnOverwrittenSwapFileEndsTheRun) {
  Config config = streaming_config(dir_);
  config.output.persist_steps = 1;
  SCOPED_TRACE(how_to_repeat(config));
  const int code = train_and(config, [&](ChildRun& child) {
    until_it_ends(child, [&] {
      const std::string file = config.output.dir + "/swap/tidepool.swap";
      std::error_code gone;
      const u64 size = fs::file_size(file, gone);
      if (!gone) std::fstream(file, std::ios::in | std::ios::out) << std::string(size, 'Z');
    });
  });
  ASSERT_EQ(code, 6) << output_;
  // The kernel itself may notice that pages it holds and direct writes met, and a flush then fails.
  EXPECT_THAT(output_,
              AnyOf(::testing::ContainsRegex("checksum mismatch reading (param|momentum|variance) of "
                                             "(wte|wpe|ln_f|h[.][0-9]) cut [0-9]+"),
                    HasSubstr("swap/tidepool.swap: Input/output error")));
  expect_resumes(config, undisturbed(config));
}

// As with `ulimit -f`: checkpoint files hit the limit.
TEST_F(FaultInTraining, ACheckpointAboveTheFileSizeLimitEndsTheRun) {
  const Config config = streaming_config(dir_);
  SCOPED_TRACE(how_to_repeat(config));
  const int code = train_and(config, [&](ChildRun& child) {
    const rlimit limit{.rlim_cur = 100 * kib, .rlim_max = 100 * kib};
    ASSERT_EQ(prlimit(child.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  });
  ASSERT_EQ(code, 6) << output_;
  EXPECT_THAT(output_, HasSubstr("checkpoint-"));
  expect_resumes(config, undisturbed(config));
}

TEST_F(FaultInTraining, ATruncatedDataFileEndsTheRun) {
  const Config config = streaming_config(dir_);
  SCOPED_TRACE(how_to_repeat(config));
  const Numbers numbers = undisturbed(config);
  const int code = train_and(config, [&](ChildRun&) { cut_short(dir_.data()); });
  ASSERT_THAT(code, AnyOf(4, 6)) << output_;
  EXPECT_THAT(output_, HasSubstr("data.txt"));
  std::ofstream(dir_.data()) << test::made_up_text(20'000);
  expect_resumes(config, numbers);
}

// ---- losses that are not finite

enum class Updates : u8 { unclipped, wait, speculate };
class NonFinite : public ::testing::TestWithParam<Updates> {};

TEST_P(NonFinite, LossStopsTheRunAndTheCheckpointIsGood) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.train.max_grad_norm = GetParam() == Updates::unclipped ? 0.0 : 1.0;
  if (GetParam() == Updates::speculate) config.train.speculate = SpeculatePolicy::on;
  config.train.lr_scheduler_type = "constant";
  config.train.max_steps = 10;
  config.output.save_steps = 2;
  SCOPED_TRACE(how_to_repeat(config));
  ASSERT_FALSE(test::run(config, {.stop_after = 4}));

  Config wild = config;
  wild.train.learning_rate = 1e30;
  const auto report = test::run(wild, {.resume = "auto"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::non_finite) << report.error().message;
  EXPECT_EQ(exit_code(report.error()), 7);
  EXPECT_THAT(report.error().message, HasSubstr("--resume auto"));

  const auto mended = test::run(config, {.resume = "auto"});
  ASSERT_TRUE(mended) << mended.error().message;
  EXPECT_EQ(mended->losses.size(), 10u);
  EXPECT_TRUE(std::ranges::all_of(mended->losses, [](double loss) { return loss < 7; }));
}

std::string updates_name(const ::testing::TestParamInfo<Updates>& info) {
  constexpr const char* names[] = {"unclipped", "clipped", "speculating"};
  return names[static_cast<u32>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Clipping, NonFinite,
                         ::testing::Values(Updates::unclipped, Updates::wait, Updates::speculate),
                         updates_name);

// ---- swap directories

// fp16: the scale falls to its minimum; then the run ends, and says what to do.
TEST(LossScale, AnOverflowAtTheLeastEndsTheRun) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  c.train.precision = Precision::fp16;
  c.train.init_scale = 0x1p32;
  c.train.min_loss_scale = 0x1p30;
  expect_error(c, ErrorKind::non_finite, "step 3: loss 5.");
  fs::remove_all(c.output.dir);
  expect_error(c, ErrorKind::non_finite, "at loss scale 1.07374e+09, the minimum (train.min_loss_scale)");
}

// Skipped steps are reported: in metrics.jsonl step by step, in the report as a count.
TEST(LossScale, SkippedStepsAreReported) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  test::make_fp16_that_overflows(c);
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->skipped_steps, 2u);
  EXPECT_EQ(report->loss_scale, 0x1p15);
  std::ifstream file(c.output.dir + "/metrics.jsonl");
  std::string first;
  std::getline(file, first);
  EXPECT_THAT(first, HasSubstr("\"loss_scale\": 16777216.0"));
  EXPECT_THAT(first, HasSubstr("\"grad_norm\": null"));
}

TEST(SwapDirectory, IfLockedByALiveRunIsRefused) {
  const TrainDir dir;
  const Config config = streaming_config(dir);
  fs::create_directory(config.output.dir);
  const auto other = SwapFile::create({.dir = config.output.dir + "/swap", .bytes = Bytes{mib}});
  ASSERT_TRUE(other) << other.error().message;
  expect_error(config, ErrorKind::io, fmt::format("in use by the job with pid {}", getpid()));
}

TEST(SwapDirectory, WithoutAParentIsRefused) {
  const TrainDir dir;
  Config config = streaming_config(dir);
  config.memory.swap_dir = dir / "not/there";
  expect_error(config, ErrorKind::io, config.memory.swap_dir);
}

TEST(SwapDirectory, OnTmpfsIsRefused) {
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "SKIPPED: no tmpfs at /dev/shm";
  const TrainDir dir;
  Config config = streaming_config(dir);
  config.memory.swap_dir = fmt::format("/dev/shm/tidepool-test-{}", getpid());
  expect_error(config, ErrorKind::io, "tmpfs");
  EXPECT_FALSE(fs::exists(config.memory.swap_dir)) << "left behind";
}

TEST(SwapDirectory, IfNotWritableIsRefused) {
  const TrainDir dir;
  Config config = streaming_config(dir);
  config.memory.swap_dir = "/proc/tidepool";  // refuses even root
  expect_error(config, ErrorKind::io, config.memory.swap_dir);
}

// ---- data

TEST(BadData, IsNamed) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  const auto put = [&](const std::string& name, const std::string& text) {
    std::ofstream(dir / name, std::ios::binary) << text;
    config.data.train = {dir / name};
  };
  config.data.train = {dir / "missing.txt"};
  expect_error(config, ErrorKind::bad_input, "missing.txt");
  put("empty.txt", "");
  expect_error(config, ErrorKind::bad_input, "empty.txt");
  put("latin1.txt", std::string(4000, '\xe4'));
  expect_error(config, ErrorKind::bad_input, "latin1.txt");
  put("short.txt", "too short");
  expect_error(config, ErrorKind::bad_input, "short.txt");
  EXPECT_FALSE(fs::exists(config.output.dir)) << "made before the data was looked at";
}

// ---- run directories and checkpoints

TEST(RunDirectory, WithCheckpointsRefusesANewRun) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  const Numbers first = test::train_numbers(config);
  expect_error(config, ErrorKind::usage, "--resume auto");
  EXPECT_EQ(test::train_numbers(config, {.resume = "auto"}), first) << "done already: nothing to add";
}

TEST(RunDirectory, OtherDataOrModelIsRefused) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  ASSERT_FALSE(test::run(config, {.stop_after = 2}));
  Config other_model = config;
  other_model.model.layers = 2;
  expect_error(other_model, ErrorKind::usage, "n_layer is 3 there and 2 here", "auto");
  Config other_precision = config;
  other_precision.train.precision = Precision::bf16;
  expect_error(other_precision, ErrorKind::usage, "precision", "auto");
  Config other_order = config;
  other_order.train.seed = 7;
  expect_error(other_order, ErrorKind::usage, "train.seed: 42 then, 7 now. Restore these settings", "auto");
  std::ofstream(dir.data()) << test::made_up_text(19'000);
  expect_error(config, ErrorKind::usage, "other data", "auto");
}

// Regression: the advice was to set model and precision, which had not changed.
TEST(RunDirectory, OtherAdaptersAreRefusedByTheirKeys) {
  const TrainDir dir;
  const Config whole = test::small_config(dir),
               lora = test::lora_config(whole, test::made_base(dir, Family::gpt2));
  ASSERT_FALSE(test::run(lora, {.stop_after = 2}));
  Config other = lora;
  other.lora.r = 8;
  expect_error(other, ErrorKind::usage, "lora.r is 4 there and 8 here. Set section lora as there", "auto");
  other = lora;
  other.lora.alpha = 8;
  expect_error(other, ErrorKind::usage, "lora.lora_alpha is 16 there and 8 here. Set section lora", "auto");
  other = lora;
  other.lora.target_modules = {"c_attn"};
  expect_error(other, ErrorKind::usage, "Set the model, section lora and train.precision as there", "auto");
  other = lora;
  other.lora = {};
  expect_error(other, ErrorKind::usage, "lora.r is 4 there and 0 here. Set section lora as there", "auto");
}

// The change that the error advises fits.
TEST(DoesNotFit, AdvisedBudgetsFit) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.budgets = {Bytes{100 * kib}, Bytes{100 * kib}, Bytes{100 * kib}};
  SCOPED_TRACE(how_to_repeat(config));
  const auto report = test::run(config);
  ASSERT_FALSE(report);
  const Error refusal = report.error();
  const std::string& message = refusal.message;
  ASSERT_EQ(refusal.kind, ErrorKind::does_not_fit) << message;
  ASSERT_FALSE(refusal.changes.empty()) << message;
  std::vector<std::string> advice;
  for (const Setting& setting : refusal.changes.front().settings) advice.push_back(setting_text(setting));
  const auto advised = parse_config(to_yaml(config), "advised", advice);
  ASSERT_TRUE(advised) << advised.error().message << "\n" << message;
  const auto mended = test::run(*advised);
  EXPECT_TRUE(mended) << mended.error().message << "\nafter: " << message;
}

// ---- signals

class Signals : public ::testing::TestWithParam<int> {
 protected:
  // A step is long enough for a second signal.
  static Config long_steps(const TrainDir& dir) {
    Config config = streaming_config(dir);
    config.train.gradient_accumulation_steps = 64;
    config.train.max_steps = 4;
    config.output.save_steps = 1;
    return config;
  }
  // Sends the signal in the second step, and waits until the child has noticed it.
  static void signal_in_second_step(ChildRun& child, const Config& config) {
    while (!fs::exists(config.output.dir + "/checkpoint-1"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // into the next step
    child.signal(GetParam());
    while (child.output().find("again to stop at once") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

TEST_P(Signals, TheFirstSavesAndEndsWithExitCode75) {
  const TrainDir dir;
  const Config config = streaming_config(dir);
  SCOPED_TRACE(how_to_repeat(config));
  Config whole = config;
  whole.output.dir = dir / "whole";
  {
    ChildRun child(config);
    ASSERT_TRUE(child.wait_for_steps(6)) << child.output();
    child.signal(GetParam());
    ASSERT_EQ(child.wait(), 75) << child.output();
    EXPECT_THAT(child.output(), HasSubstr("--resume auto"));
  }
  const auto report = test::run(config, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->resumed_from_step, 6u);
  EXPECT_EQ(numbers_of(*report), test::train_numbers(whole));
}

// Regression: a terminal that closes sends SIGHUP twice, and the second one lost the run.
TEST_P(Signals, TwoInARowAreOneRequest) {
  const TrainDir dir;
  const Config config = long_steps(dir);
  SCOPED_TRACE(how_to_repeat(config));
  ChildRun child(config);
  signal_in_second_step(child, config);
  child.signal(GetParam());
  ASSERT_EQ(child.wait(), 75) << child.output();
  EXPECT_TRUE(fs::exists(config.output.dir + "/checkpoint-2"));
}

TEST_P(Signals, ALaterSecondEndsTheRunAtOnce) {
  const TrainDir dir;
  Config config = long_steps(dir);
  SCOPED_TRACE(how_to_repeat(config));
  const int second = GetParam() == SIGHUP ? SIGINT : GetParam();  // SIGHUP is never the second
  int code = 75;
  for (u32 tries = 0; tries < 10 && code == 75; ++tries) {  // on a busy machine the run may have saved before
    fs::remove_all(config.output.dir);
    ChildRun child(config);
    signal_in_second_step(child, config);
    child.suspend(same_request * 11 / 10, second);
    code = child.wait();
    if (code == 75) continue;
    ASSERT_EQ(code, 128 + second) << child.output();
    // The checkpoint may still be in the background, after the commit that it is made from.
    EXPECT_THAT(child.output(), AnyOf(HasSubstr("stopped at once; the last checkpoint is intact"),
                                      HasSubstr("stopped at once; the last committed step is intact")));
  }
  ASSERT_NE(code, 75) << "the second signal never came in time";
  config.train.max_steps = 2;
  const auto report = test::run(config, {.resume = "auto"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->resumed_from_step, AnyOf(1u, 2u)) << "the second step may have been committed";
}

INSTANTIATE_TEST_SUITE_P(Numbers, Signals, ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& info) { return fmt::format("SIG{}", ::sigabbrev_np(info.param)); });

}  // namespace tidepool::train_fault_test
