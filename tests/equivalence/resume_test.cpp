// A run that was stopped or killed, and resumed under other budgets, threads and chunk sizes, ends with the
// numbers of an undisturbed run.
//
// TIDEPOOL_KILLS=30 sets the number of kills in all (default 6); TIDEPOOL_SEED chooses other moments.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "report/run_report.h"
#include "tests/support/child_run.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/train_fixture.h"

namespace tidepool::resume_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::TrainDir;
using ::testing::HasSubstr;

u64 from_environment(const char* name, u64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Kind {
  Precision precision{};
  bool clipping = true;
  bool lora = false;
  bool experts = false;  // adapters beside experts and routers
  Optim optim = Optim::adamw_torch;
};

Config resume_config(const Kind& kind, const TrainDir& dir, const std::string& run) {
  Config c = test::small_config(dir, run);
  c.train.precision = kind.precision;
  c.train.optim = kind.optim;
  if (kind.precision == Precision::fp16) test::make_fp16_that_overflows(c);
  c.train.max_grad_norm = kind.clipping ? 0.5 : 0.0;
  c.train.gradient_accumulation_steps = 2;
  c.train.max_steps = 12;
  c.train.warmup_steps = 3;
  c.train.eval_steps = 5;
  c.model.residual_dropout = 0.1;
  c.output.save_steps = 4;
  if (kind.lora) {
    c = test::lora_config(std::move(c), test::made_base(dir, Family::gpt2));
    c.lora.dropout = 0.1;
  }
  if (kind.experts) {
    c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
    c.model.residual_dropout = 0;
    c = test::lora_config(std::move(c), test::made_base(dir, Family::qwen3_moe));
    c.model = test::small_model(Family::qwen3_moe);
    c.lora.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"};
    c.lora.expert_r = 2;
  }
  return c;
}

// Changes everything that may differ between a run and its resume.
Config elsewhere(Config c, u64 turn) {
  constexpr HomePolicy homes[] = {HomePolicy::disk, HomePolicy::automatic, HomePolicy::mixed,
                                  HomePolicy::host};
  constexpr u64 device_kib[] = {4096, 3072, 16384, 8192}, host_kib[] = {4096, 6144, 8192, 16384};
  constexpr u64 chunk_kib[] = {40, 0, 8, 1024};
  const u64 i = turn % 4;
  c.memory.home = homes[i];
  c.memory.budgets.device = Bytes{device_kib[i] * kib};
  c.memory.budgets.host = Bytes{host_kib[i] * kib};
  c.memory.chunk_size = Bytes{chunk_kib[i] * kib};
  c.memory.sweeps = 1 + static_cast<u32>(turn % 2);
  c.memory.queue_depth = turn % 3 == 0 ? 1 : 32;
  c.memory.io = turn % 2 == 0 ? IoBackend::automatic : IoBackend::threads;
  c.machine.threads = 1 + static_cast<u32>(turn % 3);
  c.train.recompute = turn % 2 == 0 ? RecomputePolicy::automatic : RecomputePolicy::recompute;
  // Units of whole matrices are padded, so small ones have more state than parameters.
  if (optimizer(c.train.optim).place == UpdatePlace::streamed)
    c.memory.budgets.device.value *= 4, c.memory.budgets.host.value *= 4;
  if (c.model.experts.count != 0) {
    constexpr u32 groups[] = {1, 0, 3, 8};
    c.memory.experts_per_group = groups[i];
    c.memory.budgets.device.value *= 8, c.memory.budgets.host.value *= 8;
  }
  return c;
}

class Resume : public ::testing::TestWithParam<Kind> {};

TEST_P(Resume, AfterCtrlCElsewhere) {
  const TrainDir dir;
  const Numbers undisturbed = test::train_numbers(resume_config(GetParam(), dir, "whole"));
  std::mt19937_64 random(from_environment("TIDEPOOL_SEED", 1));
  Config config = resume_config(GetParam(), dir, "stopped");
  u64 step = 0, turn = 0;
  for (;; ++turn) {
    const Config here = elsewhere(config, turn);
    const u64 stop = step + 1 + random() % 4;
    SCOPED_TRACE(how_to_repeat(here) + fmt::format("; stopped after step {} of resume {}", stop, turn));
    const auto report = test::run(here, {.resume = turn == 0 ? "" : "auto", .stop_after = stop});
    if (stop >= config.train.max_steps) {
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_EQ(report->resumed_from_step, step);
      EXPECT_EQ(numbers_of(*report), undisturbed);
      break;
    }
    ASSERT_FALSE(report);
    ASSERT_EQ(report.error().kind, ErrorKind::interrupted) << report.error().message;
    EXPECT_THAT(report.error().message, HasSubstr("--resume auto"));
    step = stop;
  }
  EXPECT_GE(turn, 3u);
}

// Kills between, during and after saves: the moment is a random number of steps and microseconds.
TEST_P(Resume, AfterKillAtAnyMoment) {
  const TrainDir dir;
  Config config = resume_config(GetParam(), dir, "killed");
  config.train.max_steps = 24;
  config.output.save_steps = 3;
  Config whole = config;
  whole.output.dir = dir / "whole";
  const Numbers undisturbed = test::train_numbers(whole);

  const u64 seed = from_environment("TIDEPOOL_SEED", 1);
  std::mt19937_64 random(seed);
  const u64 kills = std::max<u64>(from_environment("TIDEPOOL_KILLS", 6) / 3, 1);  // three kinds of run
  std::printf("%llu kills of this kind of run, seed %llu; TIDEPOOL_KILLS=300 kills a hundred times\n",
              static_cast<unsigned long long>(kills), static_cast<unsigned long long>(seed));
  for (u64 done = 0, turn = 0; done < kills && turn < 4 * kills; ++turn) {
    const Config here = elsewhere(config, turn);
    SCOPED_TRACE(how_to_repeat(here) + fmt::format("; kill {}, TIDEPOOL_SEED={}", done, seed));
    const bool anew = !fs::exists(config.output.dir + "/checkpoint-3") && turn == 0;
    ChildRun child(here, anew ? "" : "auto");
    const u64 target = child.steps_logged() + random() % 5;
    const bool alive = child.wait_for_steps(target);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    if (!alive) {
      ASSERT_EQ(child.wait(), 0) << child.output();
      fs::remove_all(config.output.dir);  // done: starts again
      continue;
    }
    const int code = child.kill_now();
    ASSERT_TRUE(code == 128 + SIGKILL || code == 0) << code << "\n" << child.output();
    done += code != 0;
  }
  ChildRun last(elsewhere(config, 2), "auto");  // uses the disk: clears the leftovers of a killed run
  ASSERT_EQ(last.wait(), 0) << last.output();
  const auto report = read_report(config.output.dir);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(numbers_of(*report), undisturbed) << last.output();
  for (const auto& entry : fs::directory_iterator(config.output.dir))
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr(".tmp-"))) << "litter of a killed save";
  EXPECT_FALSE(fs::exists(config.output.dir + "/swap/tidepool.swap"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Resume,
    ::testing::Values(Kind{Precision::fp32, true}, Kind{Precision::fp32, false}, Kind{Precision::bf16, true},
                      Kind{Precision::fp16, true}, Kind{Precision::bf16, true, true},
                      Kind{Precision::fp32, true, false, true}, Kind{Precision::bf16, false, false, true},
                      Kind{Precision::bf16, true, false, false, Optim::lion},
                      Kind{Precision::fp16, true, true, false, Optim::sgd},
                      Kind{Precision::bf16, true, false, false, Optim::adamw_8bit},
                      Kind{Precision::bf16, false, true, false, Optim::adamw_8bit},
                      Kind{Precision::bf16, true, false, false, Optim::muon},
                      Kind{Precision::fp32, false, false, false, Optim::muon_bf16},
                      Kind{Precision::bf16, true, false, false, Optim::adafactor},
                      Kind{Precision::fp32, false, true, false, Optim::adafactor},
                      Kind{Precision::fp32, true, false, false, Optim::adamw_bf16}),
    [](const auto& info) {
      return std::string(info.param.experts ? "experts_"
                         : info.param.lora  ? "lora_"
                                            : "") +
             std::string(name(info.param.precision)) + (info.param.clipping ? "_clipped" : "_unclipped") +
             (info.param.optim == Optim::adamw_torch ? "" : fmt::format("_{}", name(info.param.optim)));
    });

// ---- a damaged checkpoint is named, and the previous checkpoint is used

void flip_a_bit(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
  file.seekg(middle);
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(middle);
  file.put(byte);
}
void truncate(const std::string& path) { fs::resize_file(path, fs::file_size(path) / 2); }

struct Damage {
  const char* name;
  const char* file;
  void (*strike)(const std::string&);
};

class Damaged : public ::testing::TestWithParam<Damage> {};

TEST_P(Damaged, CheckpointIsNamedAndTheOneBeforeUsed) {
  const TrainDir dir;
  Config config = resume_config({Precision::bf16, true}, dir, "run");
  Config whole = config;
  whole.output.dir = dir / "whole";
  const Numbers undisturbed = test::train_numbers(whole);
  SCOPED_TRACE(how_to_repeat(config));
  ASSERT_FALSE(test::run(config, {.stop_after = 9}));  // leaves checkpoint-9 and checkpoint-8
  GetParam().strike(config.output.dir + "/checkpoint-9/" + GetParam().file);

  ChildRun child(config, "auto");
  ASSERT_EQ(child.wait(), 0) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("skipped"));
  EXPECT_THAT(child.output(), HasSubstr(GetParam().file));
  EXPECT_THAT(child.output(), HasSubstr("resumed from " + config.output.dir + "/checkpoint-8 (step 8)"));
  const auto report = read_report(config.output.dir);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(numbers_of(*report), undisturbed);
}

// A damaged checkpoint that the user named is an error: no other checkpoint replaces it.
TEST_P(Damaged, CheckpointAskedForByNameIsRefused) {
  const TrainDir dir;
  const Config config = resume_config({Precision::fp32, true}, dir, "run");
  SCOPED_TRACE(how_to_repeat(config));
  ASSERT_FALSE(test::run(config, {.stop_after = 5}));
  const std::string path = config.output.dir + "/checkpoint-5";
  GetParam().strike(path + "/" + GetParam().file);
  const auto report = test::run(config, {.resume = path});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::corrupt_checkpoint);
  EXPECT_THAT(report.error().message, HasSubstr(path));
}

INSTANTIATE_TEST_SUITE_P(Files, Damaged,
                         ::testing::Values(Damage{"weights_bit", "model.safetensors", flip_a_bit},
                                           Damage{"optimizer_truncated", "optimizer.safetensors", truncate},
                                           Damage{"state_bit", "trainer_state.json", flip_a_bit},
                                           Damage{"manifest_truncated", "manifest.json", truncate}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::resume_test
