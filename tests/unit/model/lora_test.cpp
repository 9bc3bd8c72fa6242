// LoRA in model graphs and configs, and the settings that it refuses.
#include <gmock/gmock.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/json/text.h"
#include "checkpoint/export_model.h"
#include "config/config.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "huggingface/adapters/lora_merge.h"
#include "model/blocks.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/places.h"

namespace tidepool::lora_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;

ModelConfig small(Family family) {
  ModelConfig c = default_model(family);
  c.vocab_size = 64, c.positions = 32, c.width = 32, c.layers = 2, c.attention.heads = 4;
  if (family != Family::gpt2) c.mlp.inner_given = 48, c.attention.kv_heads_given = 2;
  return c;
}

Result<ModelGraph> graph_of(const LoraConfig& lora, Family family = Family::llama) {
  return build_model(small(family), Precision::fp32, {.sequences = 1, .tokens = 16}, Precision::fp32, lora);
}

TEST(LoraGraph, AddsAWindowPerLayerAndFreezesTheRest) {
  const ModelGraph plain = graph_of({}).value();
  const ModelGraph g = graph_of({.r = 4, .target_modules = {"v_proj", "down_proj"}}).value();
  ASSERT_EQ(g.windows.size(), plain.windows.size() + 2);
  for (u32 w = 0; w < plain.windows.size(); ++w) {
    EXPECT_EQ(g.windows[w].tensors, plain.windows[w].tensors);
    EXPECT_FALSE(g.windows[w].trainable);
  }
  const Window& adapters = g.windows.back();
  EXPECT_EQ(adapters.name, "layers.1.lora");
  EXPECT_TRUE(adapters.trainable && adapters.adapter);
  ASSERT_EQ(adapters.tensors.size(), 4u);
  EXPECT_EQ(adapters.tensors[0].name, "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight");
  EXPECT_EQ(adapters.tensors[0].shape, (std::vector<u64>{4, 32}));
  EXPECT_EQ(adapters.tensors[0].init, Init::uniform);
  EXPECT_EQ(adapters.tensors[0].init_bound, 1 / std::sqrt(32.0));
  EXPECT_EQ(adapters.tensors[1].shape, (std::vector<u64>{16, 4}));
  EXPECT_EQ(adapters.tensors[1].init, Init::zeros);
  EXPECT_EQ(adapters.tensors[3].name, "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight");
  EXPECT_EQ(trained_parameters(g), 2u * 4 * (32 + 16 + 48 + 32));
  EXPECT_EQ(last_backward_block(g), 1u);
  // Backward takes about half of a whole model's flops: only adapters have gradients of matrices.
  EXPECT_LT(g.blocks[1].backward_flops, plain.blocks[1].backward_flops);
  EXPECT_GT(g.blocks[1].forward_flops, plain.blocks[1].forward_flops);
  EXPECT_LT(g.flops_per_token, plain.flops_per_token);
}

// dy B serves the gradients of A and of x where they are made together: everywhere but in the MLP's last
// product.
TEST(LoraGraph, BackwardMakesWhatTwoGradientsShareOnce) {
  const auto times = [](const char* module, Family family, u64 out) {
    const ModelGraph g = graph_of({.r = 4, .target_modules = {module}}, family).value();
    return std::ranges::count_if(g.blocks[1].backward_kernels, [&](const KernelCost& cost) {
      return cost.m == g.batch.rows() && cost.n == 4 && cost.k == out;
    });
  };
  EXPECT_EQ(times("gate_proj", Family::llama, 48), 1);
  EXPECT_EQ(times("down_proj", Family::llama, 32), 2);
  EXPECT_EQ(times("c_attn", Family::gpt2, 96), 1);
}

TEST(LoraGraph, NamesOfGpt2AreTransformers) {
  const ModelGraph g = graph_of({.r = 2, .target_modules = {"c_proj"}}, Family::gpt2).value();
  ASSERT_EQ(g.windows.back().tensors.size(), 4u);
  EXPECT_EQ(g.windows.back().tensors[0].name, "base_model.model.transformer.h.1.attn.c_proj.lora_A.weight");
  EXPECT_EQ(g.windows.back().tensors[2].name, "base_model.model.transformer.h.1.mlp.c_proj.lora_A.weight");
}

TEST(LoraGraph, RefusesByName) {
  const auto message = [](const LoraConfig& lora) {
    const auto graph = graph_of(lora);
    return graph ? std::string() : graph.error().message;
  };
  EXPECT_THAT(message({.r = 4, .target_modules = {"c_attn"}}),
              HasSubstr("'c_attn' is no linear layer of this model"));
  EXPECT_THAT(message({.r = 4, .target_modules = {"c_attn"}}), HasSubstr("q_proj, k_proj"));
  EXPECT_THAT(message({.r = 4, .target_modules = {"q_proj", "all-linear"}}), HasSubstr("all-linear alone"));
  EXPECT_EQ(graph_of({.r = 4, .target_modules = {"all-linear"}})->windows, graph_of({.r = 4})->windows);
  EXPECT_THAT(message({.r = 4, .dropout = 1}), HasSubstr("lora.lora_dropout"));
  EXPECT_THAT(message({.r = 4, .alpha = 0}), HasSubstr("lora.lora_alpha"));
}

std::string yaml(const std::string& model, const std::string& lora) {
  return "model: " + model + "\nlora: " + lora +
         "\ndata: {train: x}\nmemory: {device: 1MiB, host: 1MiB}\ntrain: {sequence_length: 16}\n";
}

TEST(LoraConfigFile, IsReadAndWritten) {
  const std::string base = test::family_directory("llama_tied");
  const Config c =
      parse_config(yaml(base, "{r: 8, alpha: 32, target_modules: [q_proj, v_proj]}"), "c.yaml", {}).value();
  EXPECT_EQ(c.lora.r, 8u);
  EXPECT_EQ(c.lora.alpha, 32);
  EXPECT_EQ(c.lora.target_modules, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(parse_config(to_yaml(c), "again.yaml", {}).value(), c);
  EXPECT_TRUE(make_job(c)->graph.lora.on());
}

// For `plan`; tests of the command line see that `train` refuses it.
TEST(LoraConfigFile, NeedsNoModelDirectoryToBePlanned) {
  const auto c = parse_config(yaml("{model_type: llama}", "{r: 8}"), "c.yaml", {});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_TRUE(make_job(*c)->graph.lora.on());
}

TEST(LoraConfigFile, DropoutIsBelowOne) {
  const auto parsed = [](const char* lora) {
    return parse_config(yaml(test::family_directory("llama_tied"), lora), "c.yaml", {});
  };
  EXPECT_EQ(parsed("{r: 8, lora_dropout: 0.05}")->lora.dropout, 0.05);
  for (const char* lora : {"{r: 8, lora_dropout: 1}", "{r: 8, lora_dropout: -0.1}"}) {
    const auto c = parsed(lora);
    ASSERT_FALSE(c) << lora;
    EXPECT_THAT(c.error().message, HasSubstr("lora_dropout"));
  }
}

TEST(LoraConfigFile, NeedsItsRank) {
  const std::string base = test::family_directory("llama_tied");
  for (const char* key : {"lora_alpha: 16", "lora_dropout: 0.1", "target_modules: [q_proj]"}) {
    const auto c = parse_config(yaml(base, std::string("{") + key + "}"), "c.yaml", {});
    ASSERT_FALSE(c) << key;
    EXPECT_THAT(c.error().message, HasSubstr("lora.r=0 to train the whole model"));
    EXPECT_EQ(parse_config(yaml(base, std::string("{") + key + "}"), "c.yaml", {"lora.r=4"})->lora.r, 4u);
  }
  const auto alias = parse_config(yaml(base, "{}"), "c.yaml", {"dropout=0.5"});
  ASSERT_FALSE(alias);
  EXPECT_THAT(alias.error().message, HasSubstr("dropout means lora.lora_dropout"));
  EXPECT_THAT(alias.error().message, HasSubstr("set model.attention_dropout"));
  EXPECT_EQ(parse_config(yaml(base, "{}"), "c.yaml", {"lora.r=4", "dropout=0.5"})->lora.dropout, 0.5);
  EXPECT_FALSE(parse_config(yaml(base, "{r: 0, lora_alpha: 16}"), "c.yaml", {})->lora.on());
}

std::string answer_on(const std::string& key) {
  const auto c =
      parse_config(yaml(test::family_directory("llama_tied"), "{r: 4, " + key + "}"), "c.yaml", {});
  return c ? "no error" : c.error().message;
}

TEST(LoraConfigFile, KeysOfPeftAreAnswered) {
  for (const char* key : {"bias: all", "task_type: SEQ_CLS", "use_dora: true", "modules_to_save: [lm_head]"})
    EXPECT_THAT(answer_on(key), HasSubstr("leave the key out")) << key;
  EXPECT_EQ(answer_on("use_rslora: true"), "no error");
}

TEST(LoraConfigFile, KeysThatPeftAlwaysWritesAreRefusedWithAdvice) {
  for (const char* key : {"bias: none", "task_type: CAUSAL_LM", "use_dora: false", "peft_type: LORA",
                          "init_lora_weights: true"})
    EXPECT_THAT(answer_on(key), EndsWith("; Tidepool always does this; leave the key out")) << key;
}

// ---- which modules adapter_config.json names

Result<bool> held(const std::string& config, const std::string& module) {
  const boost::json::value root = parse_json(config, ErrorKind::bad_input, "test").value();
  TRY_ASSIGN(const AdapterTargets targets, parse_adapter_targets(root.get_object()));
  return targets.hold(module);
}

TEST(AdapterTargets, AreReadAsPeftReadsThem) {
  const std::string up = "model.layers.1.mlp.up_proj";
  const std::pair<const char*, bool> cases[] = {
      {R"({"target_modules": ["q_proj", "up_proj"]})", true},
      {R"({"target_modules": ["mlp.up_proj"]})", true},
      {R"({"target_modules": ["model.layers.1.mlp.up_proj"]})", true},
      {R"({"target_modules": ["p_proj"]})", false},  // whole parts of the path
      {R"({"target_modules": ["model.layers.0.mlp.up_proj"]})", false},
      {R"({"target_modules": "all-linear"})", true},
      {R"({"target_modules": ".*\\.(up|down)_proj"})", true},
      {R"({"target_modules": "(up|down)_proj"})", false},  // of the whole path
      {R"({"target_modules": ["up_proj"], "exclude_modules": ["mlp.up_proj"]})", false},
      {R"({"target_modules": ["up_proj"], "exclude_modules": ".*layers\\.1\\..*"})", false},
      {R"({"target_modules": ["up_proj"], "layers_to_transform": [0, 1]})", true},
      {R"({"target_modules": ["up_proj"], "layers_to_transform": 0})", false},
      {R"({"target_modules": null})", false},
  };
  for (const auto& [config, holds] : cases) {
    const Result<bool> out = held(config, up);
    ASSERT_TRUE(out) << config << out.error().message;
    EXPECT_EQ(*out, holds) << config;
  }
  EXPECT_THAT(held(R"({"target_modules": [1]})", up).error().message,
              HasSubstr("target_modules: must be a list"));
  EXPECT_THAT(held(R"({"layers_to_transform": ["1"]})", up).error().message,
              HasSubstr("layers_to_transform: must be"));
  EXPECT_THAT(held(R"({"target_modules": "(up"})", up).error().message,
              HasSubstr("the pattern '(up' cannot be read"));
}

// ---- adapters that are not merged

class AdapterFiles : public ::testing::Test {
 protected:
  AdapterFiles() { std::filesystem::copy(source_file("tests/golden/lora/llama_all"), directory_); }
  std::string message_with(const std::string& from, const std::string& to) {
    const std::string path = directory_ + "/adapter_config.json";
    std::string text = test::file_text(source_file("tests/golden/lora/llama_all/adapter_config.json"));
    const u64 at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    std::ofstream(path, std::ios::trunc) << text.replace(at, from.size(), to);
    const auto merge = AdapterMerge::open(directory_, base_);
    return merge ? std::string() : merge.error().message;
  }

  test::ScratchDir scratch_;
  const std::string directory_ = scratch_ / "adapter";
  const std::string base_ = test::family_directory("llama_untied_llama3");
};

TEST_F(AdapterFiles, OtherAdaptersThanPlainLoraAreRefusedByName) {
  EXPECT_THAT(message_with("\"use_dora\": false", "\"use_dora\": true"), HasSubstr("use_dora"));
  EXPECT_THAT(message_with("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 8}"),
              HasSubstr("says r=8"));
  EXPECT_THAT(message_with("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 1.5}"),
              HasSubstr("rank_pattern: must have whole numbers"));
  EXPECT_THAT(message_with("\"rank_pattern\": {}", "\"rank_pattern\": {\"(q\": 4}"),
              HasSubstr("rank_pattern: the pattern"));
  EXPECT_THAT(message_with("\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": \"x\"}"),
              HasSubstr("alpha_pattern: must be an object of patterns and numbers"));
  EXPECT_THAT(message_with("\"bias\": \"none\"", "\"bias\": \"all\""), HasSubstr("bias"));
  EXPECT_THAT(message_with("\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\""), HasSubstr("peft_type"));
  EXPECT_THAT(message_with("\"r\": 4", "\"r\": 5"), HasSubstr("r=5"));
  EXPECT_THAT(message_with("\"r\": 4", "\"r\": 0.5"), HasSubstr("r: must be a whole number"));
  EXPECT_EQ(message_with("\"use_rslora\": false", "\"use_rslora\": true"), "");
}

TEST_F(AdapterFiles, TensorsOfModulesThatAreNotNamedAreRefused) {
  const std::string message = message_with("\"model.layers.1.mlp.up_proj\",", "");
  EXPECT_THAT(
      message,
      HasSubstr(directory_ +
                "/adapter_model.safetensors: tensor base_model.model.model.layers.1.mlp.up_proj.lora_"));
  EXPECT_THAT(message, HasSubstr("belongs to no module that " + directory_ +
                                 "/adapter_config.json targets (target_modules: "));
  EXPECT_THAT(message_with("\"target_modules\": [", "\"unused\": ["),
              HasSubstr("adapter_config.json: target_modules: names no module"));
  EXPECT_THAT(message_with("\"target_modules\": [", "\"target_modules\": \"(\", \"unused\": ["),
              HasSubstr("adapter_config.json: the pattern '(' cannot be read"));
  EXPECT_EQ(message_with("\"target_modules\": [", "\"target_modules\": \".*_proj\", \"unused\": ["), "");
}

TEST_F(AdapterFiles, ModulesThatAreNamedAndHaveNoTensorsAreRefused) {
  ASSERT_EQ(message_with("\"target_modules\": [", "\"target_modules\": \".*_proj\", \"unused\": ["), "");
  const auto merge = AdapterMerge::open(directory_, base_).value();
  EXPECT_TRUE(merge->check("model.layers.1.mlp.up_proj.weight"));
  EXPECT_TRUE(merge->check("model.layers.2.input_layernorm.weight"));
  ModelConfig deeper = small(Family::llama);
  deeper.layers = 3;
  test::write_model_directory(scratch_ / "deeper", deeper, Precision::fp32);
  const auto model = ModelExport::open(scratch_ / "deeper", {.change = merge.get()});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(model.error().message,
              HasSubstr("adapter_model.safetensors: holds no tensor for model.layers.2."));
  EXPECT_THAT(model.error().message, HasSubstr("(target_modules: .*_proj)"));
}

// It switched the check off, though the model's family says which modules are linear.
TEST_F(AdapterFiles, AllLinearNamesTheLinearModulesOfTheFamily) {
  const auto check = [&](const std::string& more, const std::string& tensor) {
    EXPECT_EQ(
        message_with("\"target_modules\": [", "\"target_modules\": \"all-linear\"," + more + "\"unused\": ["),
        "");
    return AdapterMerge::open(directory_, base_).value()->check(tensor);
  };
  EXPECT_TRUE(check("", "model.layers.1.mlp.up_proj.weight"));
  EXPECT_TRUE(check("", "model.layers.2.input_layernorm.weight"));
  EXPECT_TRUE(check("", "lm_head.weight"));
  EXPECT_THAT(check("", "model.layers.2.mlp.up_proj.weight").error().message,
              HasSubstr("holds no tensor for model.layers.2.mlp.up_proj.weight"));
  EXPECT_TRUE(check(R"("exclude_modules": ".*\\.2\\..*",)", "model.layers.2.mlp.up_proj.weight"));
  EXPECT_TRUE(check(R"("layers_to_transform": [0, 1],)", "model.layers.2.mlp.up_proj.weight"));
}

// Their shapes tell nothing: the matrix is square.
TEST_F(AdapterFiles, TheModelTellsWhichWayItsMatricesLie) {
  const std::string base = scratch_ / "base", module = "model.layers.0.self_attn.q_proj";
  std::filesystem::create_directories(base);
  const auto merged = [&](const std::string& model_type, const std::string& flag) {
    std::ofstream(base + "/config.json") << R"({"model_type": ")" + model_type + R"("})";
    EXPECT_EQ(message_with("\"fan_in_fan_out\": false", "\"fan_in_fan_out\": " + flag), "");
    const auto merge = AdapterMerge::open(directory_, base).value();
    std::vector<float> values(24 * 24);
    const u64 shape[] = {24, 24};
    const auto applied = merge->apply(module + ".weight", shape, 0, values);
    EXPECT_TRUE(applied) << applied.error().message;
    return values;
  };
  const std::vector<float> right = merged("llama", "false");
  EXPECT_EQ(merged("llama", "true"), right);
  EXPECT_EQ(merged("falcon", "false"), right);
  EXPECT_NE(merged("falcon", "true"), right);  // an unknown family: only the flag says
}

TEST_F(AdapterFiles, OfAnotherModelAreRefused) {
  const auto merge = AdapterMerge::open(directory_, base_).value();
  EXPECT_TRUE(merge->changes("model.layers.0.mlp.up_proj.weight"));
  EXPECT_FALSE(merge->changes("model.layers.7.mlp.up_proj.weight"));
  std::vector<float> values(24);
  const u64 shape[] = {40, 32};
  const auto applied = merge->apply("model.layers.0.mlp.up_proj.weight", shape, 0, values);
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message, HasSubstr("[40, 32]"));
  const auto finished = merge->finish();
  ASSERT_FALSE(finished);
  EXPECT_THAT(finished.error().message, HasSubstr("another model's adapter"));
}

}  // namespace tidepool::lora_test
