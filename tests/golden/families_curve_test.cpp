// Fine-tunes model directories: 50 steps against transformers with an optimizer of PyTorch, on the same
// batches.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/json/text.h"
#include "fit/job.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"
#include "tests/support/golden_steps.h"
#include "tests/support/segments.h"

namespace tidepool::families_curve_test {

constexpr u64 steps = 50;
constexpr u32 sequences = 2, tokens_per_sequence = 20, rows = sequences * tokens_per_sequence;

struct Setting {
  const char* name;
  HomePolicy home = HomePolicy::device;
  u32 micro_batches = 1;
  u32 experts_per_group = 0;
};

Config config_of(const Setting& setting, const std::string& swap_dir) {
  Config c;
  c.model_directory = test::family_directory(setting.name);
  c.model = read_model_directory(c.model_directory).value();
  c.train.precision = Precision::fp32;
  c.train.per_device_train_batch_size = sequences / setting.micro_batches;
  c.train.gradient_accumulation_steps = setting.micro_batches;
  c.train.sequence_length = tokens_per_sequence;
  c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  c.memory.home = setting.home;
  c.memory.experts_per_group = setting.experts_per_group;
  c.memory.swap_dir = swap_dir;
  c.machine.threads = 2;
  return c;
}

// Loss of each step, with the routers' part.
std::vector<double> losses_of(const Setting& setting, Optim optim, const StepSettings& settings,
                              std::vector<std::string> groups = {}) {
  const test::ScratchDir dir;
  Config config = config_of(setting, dir / "swap");
  config.train.optim = optim;
  config.train.learning_rate = settings.optimizer.learning_rate;
  config.train.optim_groups = std::move(groups);
  const test::Safetensors expected(config.model_directory + "/expected.safetensors");
  const auto job = make_job(config);
  EXPECT_TRUE(job) << job.error().message;
  auto plan = make_plan(job->graph, job->options);
  EXPECT_TRUE(plan) << plan.error().message;
  test::GoldenSource source(expected, rows, settings);
  const auto session = Session::create(*job, std::move(*plan), source);
  EXPECT_TRUE(session) << session.error().message;
  const auto unused = load_weights(config.model_directory, job->graph, (*session)->state());
  EXPECT_TRUE(unused) << unused.error().message;

  const auto engine = Engine::create((*session)->plan(), (*session)->executor(), {});
  test::SegmentList list(test::training_runs(steps, true));
  test::Curve curve((*session)->results());
  const auto ran = engine->run(list, curve);
  EXPECT_TRUE(ran) << ran.error().message;

  std::vector<double> losses;
  const Experts& experts = config.model.experts;
  for (u64 i = 0; i < curve.steps.size(); ++i)
    losses.push_back(curve.steps[i].loss +
                     (experts.balance ? experts.balance_factor * curve.router_losses[i].balance : 0));
  return losses;
}

class FamilyCurve : public ::testing::TestWithParam<Setting> {};

TEST_P(FamilyCurve, AgreesWithTransformers) {
  const test::Safetensors expected(test::family_directory(GetParam().name) + "/expected.safetensors");
  ASSERT_EQ(expected.count("losses"), 1u) << "the case has no curve";
  const std::vector<double> losses = losses_of(
      GetParam(), Optim::adamw_torch,
      {.optimizer =
           {.learning_rate = 2e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
       .max_grad_norm = 1.0});
  const auto golden = expected.get<double>("losses");
  ASSERT_EQ(losses.size(), steps);
  double worst = 0;
  for (u64 i = 0; i < steps; ++i) {
    const double away = std::abs(losses[i] - golden[i]);
    EXPECT_LE(away, 1e-3) << "step " << i + 1;
    worst = std::max(worst, away);
  }
  RecordProperty("worst_loss", fmt::format("{:.1e}", worst));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FamilyCurve,
    ::testing::Values(
        Setting{"llama_tied"}, Setting{"llama_untied_llama3", HomePolicy::disk, 2},
        Setting{"mistral_untied", HomePolicy::host}, Setting{"qwen2_untied"},
        Setting{"qwen3_tied_head_dim", HomePolicy::mixed, 2}, Setting{"phi3_partial", HomePolicy::mixed, 2},
        Setting{"gemma3_text", HomePolicy::mixed, 2}, Setting{"gemma3_sliding", HomePolicy::disk, 2},
        Setting{"mixtral_untied", HomePolicy::disk, 2, 1},
        Setting{"mixtral_tied_losses", HomePolicy::mixed, 1, 2},
        Setting{"qwen3_moe_untied", HomePolicy::host, 2, 3},
        Setting{"qwen3_moe_tied_losses", HomePolicy::disk, 1, 1},
        Setting{"gpt_oss_untied", HomePolicy::disk, 2, 2},
        Setting{"deepseek_v3_untied", HomePolicy::disk, 2, 2}, Setting{"qwen3_5_untied", HomePolicy::disk, 2},
        Setting{"qwen3_next_untied", HomePolicy::mixed, 2, 2},
        Setting{"qwen3_5_moe_joined", HomePolicy::disk, 1, 3},
        Setting{"glm4_moe_untied", HomePolicy::disk, 2, 2},
        Setting{"glm4_moe_lite_untied", HomePolicy::mixed, 1, 4},
        Setting{"minimax_m2_untied", HomePolicy::disk, 2, 2},
        Setting{"ministral3_untied", HomePolicy::mixed, 2}, Setting{"smollm3_tied", HomePolicy::disk},
        Setting{"olmo2_untied", HomePolicy::host, 2}, Setting{"olmo3_untied", HomePolicy::disk, 2},
        Setting{"exaone4_untied", HomePolicy::mixed, 2}, Setting{"seed_oss_untied"},
        Setting{"hunyuan_v1_dense_tied", HomePolicy::disk, 2}, Setting{"ernie4_5_tied", HomePolicy::host},
        Setting{"granite_tied", HomePolicy::disk, 2}, Setting{"arcee_untied_yarn", HomePolicy::mixed, 2},
        Setting{"gemma2_tied", HomePolicy::disk, 2}, Setting{"nemotron_h_dense", HomePolicy::mixed, 2},
        Setting{"nemotron_h_untied", HomePolicy::disk, 2, 2}, Setting{"granitemoehybrid_dense"},
        Setting{"granitemoehybrid_tied_losses", HomePolicy::disk, 1, 2},
        Setting{"gemma4_text", HomePolicy::mixed, 2}, Setting{"gemma4_keys_are_values", HomePolicy::disk, 2},
        Setting{"gemma4_layer_inputs", HomePolicy::disk, 2},
        Setting{"gemma4_shared_keys", HomePolicy::mixed, 2}, Setting{"gemma4_both", HomePolicy::host, 2},
        Setting{"gemma4_experts", HomePolicy::disk, 2, 2}),
    [](const auto& info) { return std::string(info.param.name); });

struct OptimizerCase {
  Setting setting;
  Optim optim;
};
class OptimizerCurve : public ::testing::TestWithParam<OptimizerCase> {};

// Settings as in make_optimizers.py.
TEST_P(OptimizerCurve, AgreesWithPyTorch) {
  const auto& [setting, optim] = GetParam();
  const std::string path = source_file("tests/golden/optimizers/curves.json");
  const auto all = parse_json(test::file_text(path), ErrorKind::bad_input, path);
  ASSERT_TRUE(all) << all.error().message;
  const boost::json::array& golden =
      all->at("curves").at(setting.name).at(std::string(name(optim))).as_array();
  const OptimizerSettings lion = {.learning_rate = 3e-4, .beta2 = 0.99, .weight_decay = 0.1},
                          sgd = {.learning_rate = 0.03, .weight_decay = 0.01},
                          adafactor = {.learning_rate = 2e-3, .weight_decay = 0.1};
  const std::vector<double> losses = losses_of(setting, optim,
                                               {.optimizer = optim == Optim::lion  ? lion
                                                             : optim == Optim::sgd ? sgd
                                                                                   : adafactor,
                                                .max_grad_norm = 1.0});
  ASSERT_EQ(losses.size(), golden.size());
  double worst = 0;
  for (u64 i = 0; i < losses.size(); ++i) {
    const double away = std::abs(losses[i] / golden[i].as_double() - 1);
    EXPECT_LE(away, 1e-5) << "step " << i + 1;
    worst = std::max(worst, away);
  }
  RecordProperty("worst_loss", fmt::format("{:.1e}", worst));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, OptimizerCurve,
    ::testing::Values(OptimizerCase{{"llama_tied"}, Optim::lion},
                      OptimizerCase{{"qwen3_tied_head_dim", HomePolicy::disk, 2}, Optim::lion},
                      OptimizerCase{{"mistral_untied", HomePolicy::mixed, 2}, Optim::lion},
                      OptimizerCase{{"phi3_partial", HomePolicy::host}, Optim::lion},
                      OptimizerCase{{"gpt_oss_untied", HomePolicy::disk, 2, 2}, Optim::lion},
                      OptimizerCase{{"llama_tied", HomePolicy::mixed, 2}, Optim::sgd},
                      OptimizerCase{{"qwen3_tied_head_dim"}, Optim::sgd},
                      OptimizerCase{{"mistral_untied", HomePolicy::disk, 2}, Optim::sgd},
                      OptimizerCase{{"phi3_partial", HomePolicy::mixed, 2}, Optim::sgd},
                      OptimizerCase{{"gpt_oss_untied", HomePolicy::disk, 2, 2}, Optim::sgd},
                      OptimizerCase{{"llama_tied"}, Optim::adafactor},
                      OptimizerCase{{"qwen3_tied_head_dim", HomePolicy::disk, 2}, Optim::adafactor},
                      OptimizerCase{{"mistral_untied", HomePolicy::host, 2}, Optim::adafactor},
                      OptimizerCase{{"phi3_partial", HomePolicy::mixed, 2}, Optim::adafactor}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.setting.name, name(info.param.optim)); });

class MuonCurve : public ::testing::TestWithParam<Setting> {};

// Products in bf16 differ between right implementations: no more than PyTorch's own differ from exact sums.
TEST_P(MuonCurve, AgreesWithPyTorchWithinItsSpread) {
  const std::string path = source_file("tests/golden/optimizers/curves.json");
  const auto all = parse_json(test::file_text(path), ErrorKind::bad_input, path);
  ASSERT_TRUE(all) << all.error().message;
  const auto golden = [&](const char* rule) {
    return all->at("curves").at(GetParam().name).at(rule).as_array();
  };
  const std::vector<double> losses = losses_of(
      GetParam(), Optim::muon,
      {.optimizer = {.learning_rate = 0.02, .beta2 = 0.95, .weight_decay = 0.1}, .max_grad_norm = 1.0},
      {"embedding, head, norm, bias: learning_rate=2e-3"});
  ASSERT_EQ(losses.size(), golden("muon").size());
  double spread = 1e-5, worst = 0;
  for (u64 i = 0; i < losses.size(); ++i) {
    const double of_torch = golden("muon")[i].as_double(), exact = golden("muon_exact")[i].as_double();
    spread = std::max(spread, std::abs(exact / of_torch - 1));
    worst = std::max(worst, std::min(std::abs(losses[i] / of_torch - 1), std::abs(losses[i] / exact - 1)));
  }
  EXPECT_LE(worst, spread);
  RecordProperty("worst_loss", fmt::format("{:.1e} of {:.1e}", worst, spread));
}

INSTANTIATE_TEST_SUITE_P(Cases, MuonCurve,
                         ::testing::Values(Setting{"llama_tied"},
                                           Setting{"qwen3_tied_head_dim", HomePolicy::disk, 2},
                                           Setting{"mistral_untied", HomePolicy::host, 2},
                                           Setting{"phi3_partial", HomePolicy::mixed, 2}),  // joined q, k, v
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::families_curve_test
