// Compares adapters that PEFT wrote with PEFT: logits, gradients, steps of AdamW in every kind of home,
// merged weights.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "base/read_file.h"
#include "fit/job.h"
#include "huggingface/adapters/lora_merge.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/load_weights.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"
#include "tests/support/golden_steps.h"
#include "tests/support/model_runner.h"
#include "tests/support/places.h"
#include "tests/support/segments.h"

namespace tidepool::test::lora_test {

constexpr u32 sequences = 2, tokens_per_sequence = 20, rows = sequences * tokens_per_sequence;
constexpr u64 steps = 8;

struct Case {
  const char *name, *base;
  LoraConfig lora;  // off: as adapter_config.json says
  HomePolicy home = HomePolicy::automatic;
  u32 experts_per_group = 0;
};

// The cases of scripts/make_golden_lora.py.
const Case cases[] = {
    {"llama_all", "llama_untied_llama3", {.r = 4, .alpha = 8}},
    {"llama_biases_some",
     "llama_biases_linear_head_dim",
     {.r = 3, .alpha = 5, .target_modules = {"q_proj", "v_proj", "up_proj"}},
     HomePolicy::disk},
    {"qwen3_all", "qwen3_tied_head_dim", {.r = 5, .alpha = 10}, HomePolicy::mixed},
    {"qwen3_some",
     "qwen3_untied",
     {.r = 2, .alpha = 1, .target_modules = {"k_proj", "o_proj", "down_proj"}},
     HomePolicy::host},
    {"gpt2_all", "gpt2_inner", {.r = 4, .alpha = 8}, HomePolicy::disk},
    {"gpt2_some", "gpt2_plain", {.r = 3, .alpha = 7, .target_modules = {"c_fc"}}},
    {"qwen2_rslora",
     "qwen2_untied",
     {.r = 3, .alpha = 4, .target_modules = {"q_proj", "o_proj", "gate_proj"}, .rslora = true},
     HomePolicy::disk},
    {"gpt2_rslora",
     "gpt2_inner",
     {.r = 5, .alpha = 3, .target_modules = {"c_attn", "c_proj"}, .rslora = true}},
    {"llama_layers", "llama_untied_llama3", {}, HomePolicy::host},
    {"qwen3_paths", "qwen3_untied", {}, HomePolicy::disk},
    {"gpt2_regex", "gpt2_inner", {}},
    {"qwen2_patterns", "qwen2_untied", {}, HomePolicy::mixed},
    {"qwen3_moe_parameters", "qwen3_moe_untied", {}, HomePolicy::disk, 3},
    {"mixtral_names", "mixtral_untied", {}, HomePolicy::mixed, 1},
    {"gpt_oss_ranks", "gpt_oss_untied", {}, HomePolicy::host, 2},
    {"gpt_oss_one", "gpt_oss_tied_full", {}},
    {"deepseek_v3_shared", "deepseek_v3_untied", {}, HomePolicy::disk, 3},
    {"qwen3_moe_singles", "qwen3_moe_joined", {}, HomePolicy::disk, 3},
    {"mixtral_singles", "mixtral_all", {}, HomePolicy::host, 1},
    {"gemma4_branches", "gemma4_experts_inputs", {}, HomePolicy::disk, 4},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string adapter_directory(const Case& c) {
  return source_file("tests/golden/lora/") + std::string(c.name);
}

LoraConfig lora_of(const Case& c) {
  if (c.lora.on()) return c.lora;
  const std::string directory = adapter_directory(c);
  LoraConfig lora =
      lora_of_adapter_files(read_adapter_config(directory, ErrorKind::bad_input).value(), directory, "")
          .value();
  lora.dropout = 0;
  return lora;
}

using Tensors = std::map<std::string, std::vector<float>>;

// RETURNS: tensors of the adapter's file, from those of windows.
Tensors in_files(const ModelGraph& graph, const Tensors& windows) {
  Tensors out;
  for (const FileTensor& file : file_tensors(graph, form_of_files(graph))) {
    if (!graph.windows[file.parts[0].window].adapter) continue;
    std::vector<float>& all = out[file.name];
    u64 begin = 0;
    for (u64 i = 0; i < file.parts.size(); ++i) {
      const Tensor& t = graph.windows[file.parts[i].window].tensors[file.parts[i].tensor];
      const std::vector<float>& values = windows.at(t.name);
      all.resize(values.size() * file.parts.size());
      for (u64 e = 0; e < values.size(); ++e)
        all[file.interleaved ? e * file.parts.size() + i : begin + e] = values[e];
      begin += values.size();
    }
  }
  return out;
}

void load_both(const Case& c, const ModelGraph& graph, StateWriter& writer) {
  WriteMore first(writer);
  const auto base = load_weights(family_directory(c.base), graph, first);
  ASSERT_TRUE(base) << base.error().message;
  const auto adapters = load_weights(adapter_directory(c), graph, writer, WeightsOf::adapters);
  ASSERT_TRUE(adapters) << adapters.error().message;
  EXPECT_THAT(*adapters, ::testing::IsEmpty());
}

class Lora : public ::testing::TestWithParam<Case> {
 protected:
  const Case& c = GetParam();
  const Safetensors expected{adapter_directory(c) + "/expected.safetensors"};
  const std::string base_path = family_directory(c.base) + "/model.safetensors";
  std::unique_ptr<CorePool> pool = make_pool(2);

  ModelRunner load(u32 experts_per_group = 0) {
    const ModelConfig config = read_model_directory(family_directory(c.base)).value();
    ModelRunner model(
        build_model(config, Precision::fp32, {.sequences = sequences, .tokens = tokens_per_sequence},
                    Precision::fp32, lora_of(c), experts_per_group)
            .value(),
        *pool);
    WeightsWriter writer(model.weights);
    load_both(c, model.graph(), writer);
    model.upload();
    return model;
  }

  // RETURNS: every tensor that the adapter changes, merged.
  std::map<std::string, std::vector<float>> merged(const std::string& adapter) const {
    const auto merge = AdapterMerge::open(adapter, family_directory(c.base)).value();
    const auto file = SafetensorsFile::open(base_path, ErrorKind::bad_input).value();
    const Safetensors base(base_path);
    std::map<std::string, std::vector<float>> out;
    for (const StoredTensor& t : file->tensors()) {
      if (!merge->changes(t.name)) continue;
      std::vector<float>& values = out[t.name] = base.get<float>(t.name);
      for (u64 begin = 0; begin < values.size(); begin += 37) {  // rows and parts of rows
        const u64 n = std::min<u64>(37, values.size() - begin);
        const auto applied = merge->apply(t.name, t.shape, begin, std::span(values).subspan(begin, n));
        EXPECT_TRUE(applied) << applied.error().message;
      }
    }
    EXPECT_TRUE(merge->finish());
    return out;
  }
};

TEST_P(Lora, LogitsAgreeWithPeft) {
  ModelRunner model = load();
  const auto tokens = expected.get<i32>("tokens");
  std::vector<float> logits;
  for (u32 row = 0; row < rows; ++row)
    for (const float logit : model.logits(tokens.data(), row)) logits.push_back(logit);
  EXPECT_LT(distance(logits, expected.get<float>("logits")), 1e-5);
}

TEST_P(Lora, LossAndGradientsAgreeWithPeft) {
  ModelRunner model = load();
  const auto tokens = expected.get<i32>("tokens"), targets = expected.get<i32>("targets");
  const auto valid = std::count_if(targets.begin(), targets.begin() + rows, [](i32 t) { return t >= 0; });
  const double loss = expected.get<double>("loss")[0];
  std::vector<float> kept;
  double worst = 0;
  for (const bool keep : {true, false}) {
    const double sum =
        model.forward_backward(tokens.data(), targets.data(), 1.0 / double(valid), {.keep = keep});
    EXPECT_NEAR(sum / double(valid), loss, 1e-5 * loss);
    const Tensors gradients = in_files(model.graph(), model.gradients());
    for (const auto& [name, gradient] : gradients) {
      const double away = distance(gradient, expected.get<float>("gradients/" + name));
      EXPECT_LT(away, 1e-5) << name;
      worst = std::max(worst, away);
    }
    EXPECT_EQ(gradients.size(), expected.count("gradients/"));
    if (keep) {
      kept = model.all_gradients();
    } else {
      EXPECT_EQ(model.all_gradients(), kept);
    }
  }
  RecordProperty("worst_gradient", fmt::format("{:.1e}", worst));
}

TEST_P(Lora, GroupsOfExpertsChangeNoBit) {
  const auto tokens = expected.get<i32>("tokens"), targets = expected.get<i32>("targets");
  std::optional<std::pair<double, Tensors>> first;
  for (const u32 group : {0, 1, 3}) {
    ModelRunner model = load(group);
    if (model.graph().config.experts.count == 0) return;
    const double loss = model.forward_backward(tokens.data(), targets.data(), 1.0 / rows);
    std::pair<double, Tensors> now = {loss, model.gradients()};
    if (first) {
      EXPECT_TRUE(now == *first) << group;
    } else {
      first = std::move(now);
    }
  }
}

TEST_P(Lora, MergesAsPeftDoes) {
  const auto all = merged(adapter_directory(c));
  EXPECT_EQ(all.size(), expected.count("merged/"));
  double worst = 0;
  for (const auto& [name, values] : all) {
    ASSERT_TRUE(expected.has("merged/" + name)) << name;
    const auto wanted = expected.get<float>("merged/" + name);
    ASSERT_EQ(wanted.size(), values.size());
    for (u64 i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(double(values[i]) - wanted[i]));
  }
  EXPECT_LT(worst, 1e-6);
  RecordProperty("worst_merged", fmt::format("{:.1e}", worst));
}

// PEFT goes by the type of module, and corrects a flag that contradicts it.
TEST_P(Lora, MergesAsPeftDoesWithAWrongFlag) {
  const ScratchDir dir;
  const std::string adapter = dir / "adapter", path = adapter + "/adapter_config.json";
  std::filesystem::copy(adapter_directory(c), adapter);
  std::string text = read_small_file(path, mib, ErrorKind::bad_input).value();
  const bool of_gpt2 = std::string_view(c.name).starts_with("gpt2");
  const std::string key = "\"fan_in_fan_out\": ", right = key + (of_gpt2 ? "true" : "false");
  ASSERT_NE(text.find(right), std::string::npos);
  text.replace(text.find(right), right.size(), key + (of_gpt2 ? "false" : "true"));
  std::ofstream(path, std::ios::trunc) << text;
  EXPECT_EQ(merged(adapter), merged(adapter_directory(c)));
}

// ---- whole steps

Config config_of(const Case& c, const ScratchDir& dir) {
  Config config;
  config.model_directory = family_directory(c.base);
  config.model = read_model_directory(config.model_directory).value();
  config.lora = lora_of(c);
  config.memory.experts_per_group = c.experts_per_group;
  config.train.precision = Precision::fp32;
  config.train.gradient_accumulation_steps = sequences;
  config.train.sequence_length = tokens_per_sequence;
  config.memory.budgets = {Bytes{16 * mib}, Bytes{16 * mib}, Bytes{64 * mib}};
  // Experts and their adapters begin at whole granules of the norm.
  if (config.model.experts.count != 0)
    config.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  config.memory.home = c.home;
  config.memory.swap_dir = dir / "swap";
  config.machine.threads = 2;
  return config;
}

TEST_P(Lora, TrainsAsPeftDoes) {
  const ScratchDir dir;
  const Config config = config_of(c, dir);
  const auto job = make_job(config);
  ASSERT_TRUE(job) << job.error().message;
  auto plan = make_plan(job->graph, job->options);
  ASSERT_TRUE(plan) << plan.error().message;
  GoldenSource source(
      expected, rows,
      {.optimizer =
           {.learning_rate = 2e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
       .max_grad_norm = 1.0});
  const auto session = Session::create(*job, std::move(*plan), source);
  ASSERT_TRUE(session) << session.error().message;
  load_both(c, job->graph, (*session)->state());

  const auto engine = Engine::create((*session)->plan(), (*session)->executor(), {});
  tidepool::test::SegmentList list(tidepool::test::training_runs(steps, true));
  Curve curve((*session)->results());
  const auto ran = engine->run(list, curve);
  ASSERT_TRUE(ran) << ran.error().message;

  const auto golden = expected.get<double>("losses");
  ASSERT_EQ(curve.steps.size(), steps);
  for (u64 i = 0; i < steps; ++i) EXPECT_NEAR(curve.steps[i].loss, golden[i], 1e-5) << "step " << i + 1;
  (*session)->state().invalidate();
  Tensors trained;
  for (u32 w = 0; w < job->graph.windows.size(); ++w)
    for (const Tensor& t : job->graph.windows[w].tensors) {
      if (!job->graph.windows[w].adapter) continue;
      std::vector<float>& values = trained[t.name] = std::vector<float>(t.elements);
      ASSERT_TRUE((*session)->state().read(w, Kind::param, t.window_offset,
                                           std::as_writable_bytes(std::span(values))));
    }
  // An expert that few tokens chose has gradients so small that AdamW enlarges their rounding.
  const bool is_small = std::string_view(c.name).ends_with("singles");
  for (const auto& [name, values] : in_files(job->graph, trained))
    EXPECT_LT(distance(values, expected.get<float>("trained/" + name)), is_small ? 5e-4 : 1e-4) << name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Lora, ::testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::test::lora_test
