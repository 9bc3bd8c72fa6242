// LoRA runs that start from an adapter written by PEFT or another run; and rsLoRA.
#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/export_model.h"
#include "config_files/load_config.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/adapters/lora_merge.h"
#include "huggingface/weights/adapter_files.h"
#include "inference/evaluate.h"
#include "tests/support/family_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/model_directory.h"
#include "tests/support/places.h"
#include "tests/support/safetensors.h"

namespace tidepool::first_adapter_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string of_peft(const std::string& name) { return source_file("tests/golden/lora/") + name; }

class FirstAdapter : public ::testing::Test {
 protected:
  // A user's config: lora names only the adapter, unless `more` adds keys.
  Result<Config> config_of(const std::string& adapter, const std::string& base,
                           const std::vector<std::string>& more = {},
                           KeptModel kept = KeptModel::unread) const {
    std::vector<std::string> overrides = {"data.train=" + test::token_file(dir_),
                                          "data.format=nanogpt",
                                          "train.precision=fp32",
                                          "train.max_steps=0",
                                          "train.sequence_length=20",
                                          "memory.device=16MiB",
                                          "memory.host=16MiB",
                                          "machine.threads=2",
                                          "output.dir=" + (dir_ / "run"),
                                          "model=" + test::family_directory(base),
                                          "lora.adapter=" + adapter};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return parse_config("", "c.yaml", overrides, kept);
  }
  std::string copy_of(const std::string& name) const {
    fs::copy(of_peft(name), dir_ / "adapter");
    return dir_ / "adapter";
  }
  static void replace_in(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = test::file_text(path);
    ASSERT_NE(text.find(from), std::string::npos) << from;
    test::write_file(path, text.replace(text.find(from), from.size(), to));
  }
  static std::string fault_of(const Result<Config>& config) {
    return config ? "no error" : config.error().message;
  }
  static std::string fault_of_resume(const Config& config) {
    const auto report = test::run(config, {.resume = config.output.dir + "/checkpoint-2"});
    return report ? "no error" : report.error().message;
  }
  static Error fault_of_run(const Config& config) {
    const auto report = test::run(config);
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  }

  const test::TrainDir dir_;
};

struct Case {
  const char *adapter, *base;
};
class PeftAdapter : public FirstAdapter, public ::testing::WithParamInterface<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All, PeftAdapter,
    ::testing::Values(Case{"llama_all", "llama_untied_llama3"},
                      Case{"llama_biases_some", "llama_biases_linear_head_dim"},
                      Case{"qwen3_some", "qwen3_untied"}, Case{"gpt2_all", "gpt2_inner"},
                      Case{"qwen2_rslora", "qwen2_untied"}, Case{"gpt2_rslora", "gpt2_inner"},
                      Case{"llama_layers", "llama_untied_llama3"}, Case{"qwen3_paths", "qwen3_untied"},
                      Case{"gpt2_regex", "gpt2_inner"}, Case{"qwen2_patterns", "qwen2_untied"},
                      Case{"qwen3_moe_parameters", "qwen3_moe_untied"},
                      Case{"mixtral_names", "mixtral_untied"}, Case{"gpt_oss_ranks", "gpt_oss_untied"},
                      Case{"gpt_oss_one", "gpt_oss_tied_full"},
                      Case{"deepseek_v3_shared", "deepseek_v3_untied"},
                      Case{"qwen3_moe_singles", "qwen3_moe_joined"}, Case{"mixtral_singles", "mixtral_all"}),
    [](const auto& p) { return std::string(p.param.adapter); });

TEST_P(PeftAdapter, RunsStartFromItAndGiveItBack) {
  const std::string adapter = of_peft(GetParam().adapter);
  const auto config = config_of(adapter, GetParam().base, {"memory.device=64MiB", "memory.host=64MiB"});
  ASSERT_TRUE(config) << config.error().message;
  const AdapterConfig said = read_adapter_config(adapter, ErrorKind::bad_input).value();
  EXPECT_EQ(config->lora.r, said.r);
  EXPECT_EQ(config->lora.alpha, said.alpha);
  EXPECT_EQ(config->lora.rslora, said.rslora);
  EXPECT_DOUBLE_EQ(config->lora.scale(), said.scale);
  const auto report = test::run(*config);
  ASSERT_TRUE(report) << report.error().message;
  const std::string checkpoint = config->output.dir + "/checkpoint-0";
  const test::Safetensors before(adapter + "/adapter_model.safetensors"),
      after(checkpoint + "/adapter_model.safetensors");
  EXPECT_THAT(after.names(), ::testing::UnorderedElementsAreArray(before.names()));
  for (const std::string& name : before.names())
    EXPECT_EQ(before.get<float>(name), after.get<float>(name)) << name;
  const AdapterConfig written = read_adapter_config(checkpoint, ErrorKind::bad_input).value();
  EXPECT_EQ(written.rslora, said.rslora);
  EXPECT_DOUBLE_EQ(written.scale, said.scale);
  EXPECT_EQ(written.gate_up_r, said.gate_up_r);
  EXPECT_EQ(written.down_r, said.down_r);
  EXPECT_EQ(written.gate_up_alpha, said.gate_up_alpha);
  EXPECT_EQ(written.down_alpha, said.down_alpha);
  // The run's own adapter continues as it did.
  const auto again = config_of(checkpoint, GetParam().base, {"memory.device=64MiB", "memory.host=64MiB"});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->lora.modules, config->lora.modules);
}

// gate_proj alone would stand for experts too, which all-linear leaves out.
TEST_F(FirstAdapter, OfAllLinearLayersBesideExpertsIsReadAsWritten) {
  const auto config = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {"data.train=" + test::token_file(dir_),
                                          "data.format=nanogpt",
                                          "train.max_steps=0",
                                          "train.sequence_length=20",
                                          "memory.device=64MiB",
                                          "memory.host=64MiB",
                                          "model=" + test::family_directory("deepseek_v3_untied")};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return parse_config("", "c.yaml", overrides).value();
  };
  const Config first = config({"lora.r=2", "output.dir=" + (dir_ / "one")});
  ASSERT_TRUE(test::run(first));
  const std::string adapter = first.output.dir + "/checkpoint-0";
  const Config next = config({"lora.adapter=" + adapter, "output.dir=" + (dir_ / "two")});
  EXPECT_THAT(next.lora.target_modules,
              ::testing::IsSupersetOf({"mlp.up_proj", "mlp.shared_experts.up_proj"}));
  const auto report = test::run(next);
  EXPECT_TRUE(report) << report.error().message;
  const auto merge = AdapterMerge::open(adapter, test::family_directory("deepseek_v3_untied"));
  ASSERT_TRUE(merge) << merge.error().message;
  EXPECT_TRUE((*merge)->check("model.layers.1.mlp.experts.0.up_proj.weight"));
}

TEST_F(FirstAdapter, KeysOfTheConfigAreComparedWithIt) {
  const auto fault = [&](const std::string& more) {
    return fault_of(config_of(of_peft("qwen2_rslora"), "qwen2_untied", {more}));
  };
  EXPECT_EQ(fault("lora.r=3"), "no error");
  EXPECT_EQ(fault("lora.lora_alpha=4"), "no error");
  EXPECT_EQ(fault("lora.lora_dropout=0.1"), "no error");
  EXPECT_THAT(fault("lora.r=8"),
              AllOf(HasSubstr("lora.r: is 8, but the adapter in "), HasSubstr(" has 3; leave")));
  EXPECT_THAT(fault("lora.r=0"), HasSubstr("lora.r: is 0, but the adapter in "));
  EXPECT_THAT(fault("lora.lora_alpha=16"), HasSubstr("lora.lora_alpha: is 16, but the adapter in "));
  EXPECT_THAT(fault("lora.use_rslora=false"), HasSubstr("lora.use_rslora: is false, but the adapter in "));
  EXPECT_THAT(fault_of(config_of(dir_ / "nowhere", "qwen2_untied")),
              HasSubstr("lora.adapter: '" + (dir_ / "nowhere") + "' is not a directory"));
  EXPECT_THAT(fault_of(config_of(test::family_directory("qwen2_tied"), "qwen2_untied")),
              HasSubstr("holds no adapter_config.json"));
}

TEST_F(FirstAdapter, ModulesAndShapesMustBeTheAdapters) {
  const auto config = config_of(of_peft("qwen2_rslora"), "qwen2_untied");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->lora.target_modules, ElementsAre("gate_proj", "o_proj", "q_proj"));
  Config other = *config;
  other.lora.target_modules = {"q_proj", "o_proj"};
  EXPECT_THAT(fault_of_run(other).message,
              AllOf(HasSubstr("gate_proj.lora_A.weight belongs to no adapter of this run"),
                    HasSubstr("lora.target_modules")));
  other.lora.target_modules = {};
  EXPECT_THAT(
      fault_of_run(other).message,
      AllOf(HasSubstr("is missing, but this run trains an adapter there"), HasSubstr("lora.target_modules")));
  const auto wider = config_of(of_peft("qwen2_rslora"), "qwen3_tied_head_dim");
  ASSERT_TRUE(wider) << wider.error().message;
  EXPECT_EQ(fault_of_run(*wider).kind, ErrorKind::bad_input);
  EXPECT_THAT(fault_of_run(*wider).message, HasSubstr("name an adapter of this model"));
}

TEST_F(FirstAdapter, TheModelThatItNamesIsCompared) {
  const std::string adapter = copy_of("qwen2_rslora"), config_path = adapter + "/adapter_config.json";
  const std::string named = "tests/golden/families/qwen2_untied";
  replace_in(config_path, named, test::family_directory("qwen2_untied"));
  EXPECT_TRUE(test::run(*config_of(adapter, "qwen2_untied")));
  replace_in(config_path, test::family_directory("qwen2_untied"), test::family_directory("qwen2_linear"));
  const Error fault = fault_of_run(*config_of(adapter, "qwen2_untied"));
  EXPECT_EQ(fault.kind, ErrorKind::usage);
  EXPECT_THAT(fault.message,
              HasSubstr("was trained for the model in " + test::family_directory("qwen2_linear")));
  // A name on a hub does not identify a directory here.
  replace_in(config_path, test::family_directory("qwen2_linear"), "someone/a-model");
  EXPECT_TRUE(test::run(*config_of(adapter, "qwen2_untied", {"output.dir=" + (dir_ / "other")})));
}

TEST_F(FirstAdapter, OfARunItIsVerifiedAndItsModelCompared) {
  const std::string base = test::made_base(dir_, Family::llama);
  Config first = test::lora_config(test::small_config(dir_, "first"), base);
  first.model = test::small_model(Family::llama);
  first.lora.rslora = true;
  const test::Numbers numbers = test::train_numbers(first);
  Config second = first;
  second.output.dir = dir_ / "second";
  second.lora.adapter = first.output.dir + "/checkpoint-4";
  const auto report = test::run(second);
  ASSERT_TRUE(report) << report.error().message;
  // It starts where the first run ended, not where a new adapter starts.
  EXPECT_LT(report->losses.front(), numbers.losses.front());
  const std::string weights = second.lora.adapter + "/adapter_model.safetensors";
  std::string bytes = test::file_text(weights);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_file(weights, bytes);
  second.output.dir = dir_ / "third";
  EXPECT_EQ(fault_of_run(second).kind, ErrorKind::corrupt_checkpoint);
}

// By then the run's own checkpoints have the weights.
TEST_F(FirstAdapter, AResumedRunNeedsItNoMore) {
  const std::string adapter = copy_of("llama_all");
  Config config = config_of(adapter, "llama_untied_llama3", {"train.max_steps=4"}).value();
  const test::Numbers whole = test::train_numbers(config);
  config.output.dir = dir_ / "stopped";
  EXPECT_EQ(test::run(config, {.stop_after = 2}).error().kind, ErrorKind::interrupted);
  fs::remove_all(adapter);
  // The config that started the run states no rank: the run has it now.
  const auto named =
      config_of(adapter, "llama_untied_llama3", {"output.dir=" + config.output.dir}, KeptModel::read);
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->lora, config.lora);
  const auto described = load_config(config.output.dir + "/config.yaml", {}, KeptModel::read);
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ(described->lora, config.lora);
  const test::Numbers resumed = test::train_numbers(*described, {.resume = "auto"});
  EXPECT_EQ(resumed.weights_xxh3, whole.weights_xxh3);
  EXPECT_EQ(resumed.losses, whole.losses);
  EXPECT_TRUE(evaluate_model({.source = config.output.dir, .quiet = true}));
}

// Also where adapters differ between layers.
TEST_F(FirstAdapter, AResumedRunKnowsRankAndAlphaOfEachModule) {
  const std::string adapter = copy_of("qwen2_patterns");
  Config config = config_of(adapter, "qwen2_untied", {"train.max_steps=4"}).value();
  ASSERT_EQ(config.lora.modules.size(), 5u);
  const test::Numbers whole = test::train_numbers(config);
  config.output.dir = dir_ / "stopped";
  EXPECT_EQ(test::run(config, {.stop_after = 2}).error().kind, ErrorKind::interrupted);
  fs::remove_all(adapter);
  const auto described = load_config(config.output.dir + "/config.yaml", {}, KeptModel::read);
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ(described->lora, config.lora);
  EXPECT_EQ(test::train_numbers(*described, {.resume = "auto"}).weights_xxh3, whole.weights_xxh3);
  EXPECT_TRUE(evaluate_model({.source = config.output.dir, .quiet = true}));
  // Another alpha of one module is another run.
  Config other = config;
  other.lora.modules[1].alpha *= 2;
  EXPECT_THAT(fault_of_resume(other), HasSubstr("lora_alpha of model.layers.0.self_attn.q_proj is"));
}

// With the same scale every step is the same, to the bit.
TEST(RsLora, ItsScaleIsAlphaOverTheRootOfR) {
  const test::TrainDir dir;
  Config plain = test::lora_config(test::small_config(dir, "plain"), test::made_base(dir, Family::qwen3));
  plain.model = test::small_model(Family::qwen3);
  Config stable = plain;
  stable.output.dir = dir / "stable";
  stable.lora.rslora = true;
  stable.lora.alpha = plain.lora.alpha / 2;  // 16 / 4 = 8 / 2
  EXPECT_EQ(test::train_numbers(plain), test::train_numbers(stable));
  // The same holds for the written files, and for models made of them.
  const std::string adapter = stable.output.dir + "/checkpoint-4";
  EXPECT_THAT(test::file_text(adapter + "/adapter_config.json"), HasSubstr("\"use_rslora\": true"));
  EXPECT_DOUBLE_EQ(read_adapter_config(adapter, ErrorKind::bad_input)->scale, 4);
  stable.lora.rslora = false;
  const auto resumed = test::run(stable, {.resume = adapter});
  ASSERT_FALSE(resumed);
  EXPECT_THAT(resumed.error().message, HasSubstr("lora.use_rslora is true there and false here"));
}

}  // namespace tidepool::first_adapter_test
