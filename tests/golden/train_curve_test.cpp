// Compares twenty AdamW steps with PyTorch's, through the planner, the engine and the executor: all resident,
// and streamed through host and disk, in one micro-batch and in several. In fp16 with PyTorch's GradScaler.
#include <gtest/gtest.h>

#include <cmath>

#include "fit/job.h"
#include "huggingface/weights/load_weights.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/golden_steps.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/places.h"
#include "tests/support/segments.h"
#include "tests/support/train_fixture.h"

namespace tidepool::train_curve_test {

using test::Safetensors;

constexpr u64 steps = 20;
constexpr u32 sequences = 3, tokens_per_sequence = 24;
constexpr u64 rows = u64{sequences} * tokens_per_sequence;
constexpr double loss_tolerance = 1e-4;  // relative to the loss

struct Setting {
  const char* name;
  bool clipping = true;
  HomePolicy home = HomePolicy::device;
  u32 micro_batches = 1;
  u32 sweeps = 1;
  Precision precision = Precision::fp32;
};

// As in scripts/make_golden_fp16.py: a third of the steps overflows.
constexpr float first_scale = 0x1p20f;
constexpr LossScaling scaling{.growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 3};

Config config_of(const Setting& setting, const std::string& dir) {
  Config c;
  c.model = {.vocab_size = 67, .positions = 32, .width = 48, .layers = 2, .attention = {.heads = 3}};
  c.train.precision = setting.precision;
  c.train.per_device_train_batch_size = sequences / setting.micro_batches;
  c.train.gradient_accumulation_steps = setting.micro_batches;
  c.train.sequence_length = tokens_per_sequence;
  c.train.max_grad_norm = setting.clipping ? 1.0 : 0.0;
  c.memory.budgets = {Bytes{16 * mib}, Bytes{16 * mib}, Bytes{64 * mib}};
  c.memory.home = setting.home;
  c.memory.sweeps = setting.sweeps;
  c.memory.chunk_size = Bytes{setting.home == HomePolicy::device ? 0 : 16 * kib};
  c.memory.swap_dir = dir;
  c.machine.threads = 2;
  return c;
}

void load_weights(const Safetensors& golden, const ModelGraph& graph, StateStore& state) {
  for (u32 w = 0; w < graph.windows.size(); ++w)
    for (const Tensor& tensor : graph.windows[w].tensors) {
      const auto values = golden.get<float>("weights/" + tensor.name);
      ASSERT_EQ(values.size(), tensor.elements) << tensor.name;
      const bool fp16 = graph.precision == Precision::fp16;
      const test::HalfCopy halves(values, Precision::fp16);
      const auto words = std::as_bytes(std::span(values));
      ASSERT_TRUE(state.write(w, Kind::param, tensor.window_offset,
                              fp16 ? std::as_bytes(std::span(halves.bits)) : words));
      if (fp16) {
        ASSERT_TRUE(state.write(w, graph.state_slots.master(), tensor.window_offset, words));
      }
    }
  ASSERT_TRUE(state.finish());
}

// The optimizer settings of the golden files' README.
StepSettings settings_of(const Setting& setting) {
  return {
      .optimizer = {.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
      .max_grad_norm = setting.clipping ? 1.0 : 0.0,
      .loss_scaling = setting.precision == Precision::fp16 ? scaling : LossScaling{}};
}

class TrainCurve : public ::testing::TestWithParam<Setting> {};

TEST_P(TrainCurve, AgreesWithPytorch) {
  const Setting& setting = GetParam();
  const Safetensors golden(source_file("tests/golden/pytorch/gpt2_tiny.safetensors"));
  const bool fp16 = setting.precision == Precision::fp16;
  ASSERT_FALSE(golden.empty());
  const test::ScratchDir dir;
  const Config config = config_of(setting, dir / "swap");
  SCOPED_TRACE(test::how_to_repeat(config));
  const auto job = make_job(config);
  ASSERT_TRUE(job) << job.error().message;
  auto plan = make_plan(job->graph, job->options);
  ASSERT_TRUE(plan) << plan.error().message;
  test::GoldenSource source(golden, rows, settings_of(setting));
  const auto session = Session::create(*job, std::move(*plan), source);
  ASSERT_TRUE(session) << session.error().message;
  load_weights(golden, job->graph, (*session)->state());
  if (fp16) (*session)->results().set_loss_scale({.scale = first_scale});

  const auto engine = Engine::create((*session)->plan(), (*session)->executor(), {});
  test::SegmentList list(test::training_runs(steps, (*session)->plan().clipping));
  test::Curve curve((*session)->results());
  const auto ran = engine->run(list, curve);
  ASSERT_TRUE(ran) << ran.error().message;

  const std::string key = setting.clipping ? "curve/clipped/" : "curve/unclipped/";
  const Safetensors expected(source_file("tests/golden/pytorch/") +
                             std::string(fp16 ? "gpt2_tiny_fp16.safetensors" : "gpt2_tiny.safetensors"));
  const auto losses = expected.get<double>(key + "losses"), norms = expected.get<double>(key + "grad_norms");
  ASSERT_EQ(curve.steps.size(), steps);
  for (u64 i = 0; i < steps; ++i) {
    EXPECT_NEAR(curve.steps[i].loss, losses[i], loss_tolerance * losses[i]) << "step " << i + 1;
    if (std::isfinite(norms[i])) {
      EXPECT_NEAR(curve.steps[i].grad_norm, norms[i], 1e-3 * norms[i]) << "step " << i + 1;
    } else {
      EXPECT_FALSE(std::isfinite(curve.steps[i].grad_norm)) << "step " << i + 1;
    }
  }
  if (fp16) {
    std::vector<double> scales;
    for (const StepResult& step : curve.steps) scales.push_back(step.next_loss_scale.scale);
    EXPECT_EQ(scales, expected.get<double>(key + "scales"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, TrainCurve,
    ::testing::Values(Setting{"resident_clipped", true}, Setting{"resident_unclipped", false},
                      Setting{"disk_clipped", true, HomePolicy::disk},
                      Setting{"disk_unclipped", false, HomePolicy::disk},
                      Setting{"mixed_three_micro_batches_clipped", true, HomePolicy::mixed, 3},
                      Setting{"disk_three_sweeps_clipped", true, HomePolicy::disk, 3, 3},
                      Setting{"disk_three_sweeps_unclipped", false, HomePolicy::disk, 3, 3},
                      Setting{"fp16_resident_clipped", true, HomePolicy::device, 1, 1, Precision::fp16},
                      Setting{"fp16_disk_clipped", true, HomePolicy::disk, 3, 3, Precision::fp16},
                      Setting{"fp16_mixed_unclipped", false, HomePolicy::mixed, 3, 1, Precision::fp16}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::train_curve_test
