// What LoRA makes of a model and a config, and what it refuses.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "checkpoint/lora_merge.h"
#include "config/config.h"
#include "model/blocks.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

ModelConfig small(Family family) {
  ModelConfig c = default_model(family);
  c.vocab_size = 64, c.positions = 32, c.width = 32, c.layers = 2, c.heads = 4;
  if (family != Family::gpt2) c.inner_given = 48, c.kv_heads_given = 2;
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
  // Backward makes about half of what it makes for a whole model: no gradients of matrices but the adapters'.
  EXPECT_LT(g.blocks[1].backward_flops, plain.blocks[1].backward_flops);
  EXPECT_GT(g.blocks[1].forward_flops, plain.blocks[1].forward_flops);
  EXPECT_LT(g.flops_per_token, plain.flops_per_token);
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
  EXPECT_THAT(message({.r = 4, .target_modules = {"c_attn"}}), HasSubstr("'c_attn' is no linear layer of this model"));
  EXPECT_THAT(message({.r = 4, .target_modules = {"c_attn"}}), HasSubstr("q_proj, k_proj"));
  EXPECT_THAT(message({.r = 4, .target_modules = {"q_proj", "all-linear"}}), HasSubstr("all-linear alone"));
  EXPECT_EQ(graph_of({.r = 4, .target_modules = {"all-linear"}})->windows, graph_of({.r = 4})->windows);
  EXPECT_THAT(message({.r = 4, .dropout = 0.1}), HasSubstr("lora.lora_dropout"));
  EXPECT_THAT(message({.r = 4, .alpha = 0}), HasSubstr("lora.lora_alpha"));
}

std::string yaml(const std::string& model, const std::string& lora) {
  return "model: " + model + "\nlora: " + lora + "\ndata: {train: x}\nmemory: {device: 1MiB, host: 1MiB}\ntrain: {sequence_length: 16}\n";
}

TEST(LoraConfigFile, IsReadAndWritten) {
  const std::string base = test::family_directory("llama_tied");
  const Config c = parse_config(yaml(base, "{r: 8, alpha: 32, target_modules: [q_proj, v_proj]}"), "c.yaml", {}).value();
  EXPECT_EQ(c.lora.r, 8u);
  EXPECT_EQ(c.lora.alpha, 32);
  EXPECT_EQ(c.lora.target_modules, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(parse_config(to_yaml(c), "again.yaml", {}).value(), c);
  EXPECT_TRUE(make_graph(c)->lora.on());
}

TEST(LoraConfigFile, NeedsAModelDirectory) {
  const auto c = parse_config(yaml("{model_type: llama}", "{r: 8}"), "c.yaml", {});
  ASSERT_FALSE(c);
  EXPECT_THAT(c.error().message, HasSubstr("model: DIRECTORY"));
  const auto d = parse_config(yaml(test::family_directory("llama_tied"), "{r: 8, lora_dropout: 0.1}"), "c.yaml", {});
  ASSERT_FALSE(d);
  EXPECT_THAT(d.error().message, HasSubstr("lora_dropout"));
}

// ---- adapters that are not merged

class AdapterFiles : public ::testing::Test {
 protected:
  AdapterFiles() {
    std::filesystem::copy(TIDEPOOL_SOURCE_DIR "/tests/golden/lora/llama_all", directory_);
  }
  std::string message_with(const std::string& from, const std::string& to) {
    const std::string path = directory_ + "/adapter_config.json";
    std::ifstream in(TIDEPOOL_SOURCE_DIR "/tests/golden/lora/llama_all/adapter_config.json");
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const u64 at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    std::ofstream(path, std::ios::trunc) << text.replace(at, from.size(), to);
    const auto merge = AdapterMerge::open(directory_);
    return merge ? std::string() : merge.error().message;
  }

  test::ScratchDir scratch_;
  const std::string directory_ = scratch_ / "adapter";
};

TEST_F(AdapterFiles, WhatIsNotPlainLoraIsRefusedByName) {
  EXPECT_THAT(message_with("\"use_dora\": false", "\"use_dora\": true"), HasSubstr("use_dora"));
  EXPECT_THAT(message_with("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 8}"), HasSubstr("rank_pattern"));
  EXPECT_THAT(message_with("\"bias\": \"none\"", "\"bias\": \"all\""), HasSubstr("bias"));
  EXPECT_THAT(message_with("\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\""), HasSubstr("peft_type"));
  EXPECT_THAT(message_with("\"r\": 4", "\"r\": 5"), HasSubstr("r=5"));
  EXPECT_THAT(message_with("\"r\": 4", "\"r\": 0.5"), HasSubstr("r: must be a whole number"));
  EXPECT_EQ(message_with("\"use_rslora\": false", "\"use_rslora\": true"), "");
}

TEST_F(AdapterFiles, OfAnotherModelAreRefused) {
  const auto merge = AdapterMerge::open(directory_).value();
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

}  // namespace
}  // namespace tidepool
