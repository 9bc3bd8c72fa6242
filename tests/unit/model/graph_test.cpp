// Windows and sizes of models, and what is refused.
#include <gmock/gmock.h>

#include "model/blocks.h"

namespace tidepool::graph_test {

constexpr BatchShape batch = {.sequences = 2, .tokens = 128};

TEST(Gpt2Graph, HasTheParametersOfGpt2) {
  const ModelGraph g =
      build_model({.vocab_size = 50257}, Precision::fp32, {.sequences = 1, .tokens = 1024}).value();
  EXPECT_EQ(g.parameters, 124'439'808u);
  EXPECT_EQ(g.windows.size(), 15u);
  EXPECT_EQ(g.blocks.size(), 14u);
  EXPECT_EQ(g.windows[2].tensors[2].name, "h.0.attn.c_attn.weight");
  EXPECT_EQ(g.windows[2].tensors[2].shape, (std::vector<u64>{768, 2304}));
  EXPECT_EQ(g.windows[14].name, "ln_f");
  EXPECT_EQ(g.blocks[13].windows, (std::vector<u32>{14, 0}));
  EXPECT_EQ(g.flops_per_token, 6 * g.parameters + u64{12} * 12 * 768 * 1024);
}

TEST(Gpt2Graph, TensorsLieAlignedAndApart) {
  const ModelGraph g = build_model({.vocab_size = 67, .width = 30, .layers = 2, .attention = {.heads = 3}},
                                   Precision::bf16, batch)
                           .value();
  for (const Window& w : g.windows) {
    u64 end = 0;
    for (const Tensor& t : w.tensors) {
      EXPECT_EQ(t.window_offset % 64, 0u);
      EXPECT_GE(t.window_offset, end);
      EXPECT_EQ(t.weight_decay, t.shape.size() == 2) << t.name;
      end = t.window_offset + t.elements;
    }
    EXPECT_GE(w.elements, end);
    EXPECT_EQ(w.elements % cut_alignment_elements, 0u);
  }
}

TEST(Gpt2Graph, ResidualProjectionsStartSmaller) {
  const ModelGraph g = build_model({.layers = 8}, Precision::fp32, batch).value();
  for (const Tensor& t : g.windows[2].tensors) {
    if (t.init != Init::normal) continue;
    EXPECT_DOUBLE_EQ(t.init_std, t.name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02) << t.name;
  }
}

TEST(Gpt2Graph, SizesAreWholePages) {
  const ModelGraph g = build_model({}, Precision::fp32, batch).value();
  for (const Block& b : g.blocks) {
    for (Bytes bytes : {b.kept, b.forward_workspace, b.backward_workspace}) {
      EXPECT_EQ(bytes.value % frame_alignment, 0u) << b.name;
    }
    EXPECT_GT(b.backward_flops, 0u);
  }
  EXPECT_GE(g.boundary.value, batch.rows() * 768 * 4);
}

TEST(Gpt2Graph, ActivationsOfSixteenBitsTakeHalf) {
  const ModelGraph wide = build_model({}, Precision::bf16, batch).value();
  const ModelGraph narrow = build_model({}, Precision::bf16, batch, Precision::bf16).value();
  EXPECT_EQ(narrow.boundary.value * 2, wide.boundary.value);
  for (u32 b = 1; b < wide.blocks.size(); ++b) {
    // Statistics of rows (lse, mean, rstd) and partial sums stay fp32.
    EXPECT_LT(narrow.blocks[b].kept.value, wide.blocks[b].kept.value * 0.52 + 1) << wide.blocks[b].name;
    EXPECT_LT(narrow.blocks[b].backward_workspace.value, wide.blocks[b].backward_workspace.value * 0.56);
  }
  EXPECT_EQ(narrow.windows, wide.windows);
}

std::string refusal(const ModelConfig& config, BatchShape shape = batch) {
  const auto result = build_model(config, Precision::fp32, shape);
  if (result) return "accepted";
  EXPECT_EQ(result.error().kind, ErrorKind::usage);
  return result.error().message;
}

TEST(Gpt2Graph, RefusesImpossibleModels) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal({.width = 100, .attention = {.heads = 3}}), HasSubstr("model.n_head"));
  EXPECT_THAT(refusal({.positions = 64}), HasSubstr("model.n_positions 64"));
  EXPECT_THAT(refusal({.vocab_size = 0}), HasSubstr("model.vocab_size"));
  EXPECT_THAT(refusal({.layers = 0}), HasSubstr("model.n_layer"));
  EXPECT_THAT(refusal({.attention = {.heads = 1}}), HasSubstr("more than the 512 supported"));
  EXPECT_THAT(refusal({.attention = {.dropout = 1.0}}), HasSubstr("model.attn_pdrop"));
  EXPECT_THAT(refusal({}, {.sequences = 0, .tokens = 8}), HasSubstr("per_device_train_batch_size"));
  EXPECT_THAT(refusal({}, {.sequences = 1 << 20, .tokens = 1024}), HasSubstr("gradient_accumulation_steps"));
}

ModelConfig llama_7b() {
  ModelConfig c = default_model(Family::llama);
  c.vocab_size = 32000, c.positions = 4096, c.width = 4096, c.layers = 32, c.attention.heads = 32;
  return c;
}

TEST(LlamaGraph, HasTheParametersOfLlama) {
  const ModelGraph g = build_model(llama_7b(), Precision::bf16, {.sequences = 1, .tokens = 2048}).value();
  EXPECT_EQ(g.parameters, 6'738'415'616u);
  EXPECT_EQ(g.windows.size(), 35u);
  EXPECT_EQ(g.windows[0].name, "embed_tokens");
  EXPECT_EQ(g.windows[1].name, "layers.0");
  EXPECT_EQ(g.windows[1].tensors[1].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(g.windows[33].name, "norm");
  EXPECT_EQ(g.windows[34].tensors[0].name, "lm_head.weight");
  EXPECT_EQ(g.blocks[0].windows, (std::vector<u32>{0}));
  EXPECT_EQ(g.blocks[1].name, "layers.0");
  EXPECT_EQ(g.blocks[33].windows, (std::vector<u32>{33, 34}));
  // The embedding is not tied: a look-up has no flops.
  EXPECT_EQ(g.flops_per_token, 6 * (g.parameters - u64{32000} * 4096) + u64{12} * 32 * 4096 * 2048);
}

TEST(LlamaGraph, Qwen3sHeadsMayBeWiderThanItsWidth) {
  // Qwen3-0.6B
  ModelConfig c = default_model(Family::qwen3);
  c.vocab_size = 151936, c.positions = 40960, c.width = 1024, c.layers = 28, c.attention.heads = 16;
  c.attention.kv_heads_given = 8, c.softmax.head_size_given = 128, c.mlp.inner_given = 3072, c.tied = true;
  const ModelGraph g = build_model(c, Precision::bf16, {.sequences = 1, .tokens = 1024}).value();
  EXPECT_EQ(g.parameters, 596'049'920u);
  EXPECT_EQ(g.blocks.back().windows, (std::vector<u32>{29, 0}));
  EXPECT_EQ(g.flops_per_token, 6 * g.parameters + u64{12} * 28 * 2048 * 1024);
}

TEST(LlamaGraph, Gemma3HasFourNormsInALayer) {
  // Gemma 3 1B
  ModelConfig c = default_model(Family::gemma3_text);
  c.vocab_size = 262144, c.positions = 32768, c.width = 1152, c.layers = 26, c.attention.heads = 4;
  c.attention.kv_heads_given = 1, c.softmax.head_size_given = 256, c.mlp.inner_given = 6912;
  const ModelGraph g = build_model(c, Precision::bf16, {.sequences = 1, .tokens = 512}).value();
  EXPECT_EQ(g.parameters, 999'885'952u);
  std::vector<std::string> norms;
  for (const Tensor& tensor : g.windows[1].tensors)
    if (tensor.name.ends_with("norm.weight"))
      norms.push_back(tensor.name.substr(std::string_view("model.layers.0.").size()));
  EXPECT_EQ(norms, (std::vector<std::string>{"input_layernorm.weight", "self_attn.q_norm.weight",
                                             "self_attn.k_norm.weight", "post_attention_layernorm.weight",
                                             "pre_feedforward_layernorm.weight",
                                             "post_feedforward_layernorm.weight"}));
  EXPECT_EQ(g.windows[1].tensors[0].init, Init::zeros);
}

TEST(LlamaGraph, GptOssHasExpertsWithBiases) {
  // gpt-oss-20b
  ModelConfig c = default_model(Family::gpt_oss);
  c.vocab_size = 201088, c.width = 2880, c.layers = 24, c.attention.heads = 64, c.tied = false;
  c.attention.kv_heads_given = 8, c.softmax.head_size_given = 64, c.mlp.inner_given = 2880;
  c.experts.count = 32, c.experts.chosen = 4;
  const ModelGraph g =
      build_model(c, Precision::bf16, {.sequences = 1, .tokens = 512}, Precision::bf16, {}, 8).value();
  EXPECT_EQ(g.parameters, 20'914'757'184u);
  EXPECT_EQ(g.windows[1].name, "layers.0");
  EXPECT_EQ(g.windows[3].name, "layers.0.experts.8-15");
  EXPECT_EQ(g.windows[3].tensors[4].name, "model.layers.0.mlp.experts.9.gate_up_proj");
  EXPECT_EQ(g.windows[3].tensors[4].shape, (std::vector<u64>{2880, 5760}));
  for (const Window& w : g.windows)
    for (const Tensor& t : w.tensors) {
      const bool vector =
          t.name.ends_with("bias") || t.name.ends_with("norm.weight") || t.name.ends_with("sinks");
      EXPECT_EQ(t.weight_decay, !vector) << t.name;
    }
}

TEST(DeepseekGraph, HasTheSizesOfDeepseekV3) {
  ModelConfig c = default_model(Family::deepseek_v3);
  c.vocab_size = 129280, c.width = 7168, c.layers = 61, c.attention.heads = 128, c.tied = false;
  c.attention.kv_heads_given = 128, c.mlp.inner_given = 18432;
  c.latent = {.q_lora_rank = 1536,
              .kv_lora_rank = 512,
              .qk_nope_head_dim = 128,
              .qk_rope_head_dim = 64,
              .v_head_dim = 128};
  c.experts.count = 256, c.experts.chosen = 8, c.experts.inner_given = 2048, c.experts.shared = 1;
  c.experts.groups = 8, c.experts.chosen_groups = 4, c.experts.scale = 2.5, c.experts.dense_layers = 3;
  const ModelGraph g =
      build_model(c, Precision::bf16, {.sequences = 1, .tokens = 512}, Precision::bf16, {}, 64).value();
  EXPECT_EQ(g.parameters, 671026419200u);
  EXPECT_EQ(g.active_parameters, 37552297472u);
  EXPECT_EQ(g.blocks[3].kind, BlockKind::layer);
  EXPECT_EQ(g.blocks[4].kind, BlockKind::attention);
  for (const Window& w : g.windows)
    for (const Tensor& t : w.tensors)
      EXPECT_EQ(t.weight_decay, !t.name.ends_with("bias") && !t.name.ends_with("norm.weight")) << t.name;
}

TEST(DeepseekGraph, AttentionAndSharedExpertsHaveAdapters) {
  ModelConfig c = default_model(Family::deepseek_v3);
  c.vocab_size = 64, c.positions = 32, c.width = 32, c.layers = 2, c.attention.heads = 4,
  c.mlp.inner_given = 48;
  c.attention.kv_heads_given = 4;
  c.latent = {
      .q_lora_rank = 12, .kv_lora_rank = 8, .qk_nope_head_dim = 8, .qk_rope_head_dim = 4, .v_head_dim = 6};
  c.experts.count = 4, c.experts.chosen = 2, c.experts.inner_given = 16, c.experts.shared = 1;
  c.experts.dense_layers = 1;
  const ModelGraph g = build_model(c, Precision::fp32, {.sequences = 1, .tokens = 16}, Precision::fp32,
                                   {.r = 2, .target_modules = {"all-linear"}}, 0)
                           .value();
  const std::string layer = "base_model.model.model.layers.1.", prefix = layer + "self_attn.";
  const std::string shared = layer + "mlp.shared_experts.";
  std::vector<std::string> names;
  for (const Tensor& t : g.windows.back().tensors)
    if (t.name.ends_with("lora_A.weight")) names.push_back(t.name);
  EXPECT_EQ(names,
            (std::vector{prefix + "q_a_proj.lora_A.weight", prefix + "q_b_proj.lora_A.weight",
                         prefix + "kv_a_proj_with_mqa.lora_A.weight", prefix + "kv_b_proj.lora_A.weight",
                         prefix + "o_proj.lora_A.weight", shared + "gate_proj.lora_A.weight",
                         shared + "up_proj.lora_A.weight", shared + "down_proj.lora_A.weight"}));
}

TEST(LlamaGraph, LayersWithAWindowCostLess) {
  ModelConfig c = default_model(Family::gemma3_text);
  c.layers = 4, c.softmax.sliding_window_pattern = 2, c.softmax.sliding_window = 128;
  const std::vector<Block> longer = build_model(c, Precision::bf16, {.sequences = 1, .tokens = 1024})->blocks;
  EXPECT_LT(longer[1].forward_flops, longer[2].forward_flops);
  EXPECT_EQ(longer[1].backward_kernels, longer[3].backward_kernels);
  EXPECT_EQ(longer[2].backward_kernels, longer[4].backward_kernels);
  const std::vector<Block> shorter = build_model(c, Precision::bf16, {.sequences = 1, .tokens = 128})->blocks;
  EXPECT_EQ(shorter[1].forward_kernels, shorter[2].forward_kernels);
}

TEST(LlamaGraph, Phi3sProjectionsAreFused) {
  // Phi-3-mini
  ModelConfig c = default_model(Family::phi3);
  c.vocab_size = 32064, c.positions = 4096, c.width = 3072, c.layers = 32, c.attention.heads = 32,
  c.mlp.inner_given = 8192;
  const ModelGraph g = build_model(c, Precision::bf16, {.sequences = 1, .tokens = 1024}).value();
  EXPECT_EQ(g.parameters, 3'821'079'552u);
  const std::vector<Tensor>& layer = g.windows[1].tensors;
  ASSERT_EQ(layer.size(), 6u);
  EXPECT_EQ(layer[1].name, "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(layer[1].shape, (std::vector<u64>{9216, 3072}));
  EXPECT_EQ(layer[4].name, "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(layer[4].shape, (std::vector<u64>{16384, 3072}));
  // The same kernels as those of a Llama of these sizes.
  ModelConfig llama = c;
  llama.family = Family::llama;
  EXPECT_EQ(build_model(llama, Precision::bf16, g.batch)->blocks[1].backward_kernels,
            g.blocks[1].backward_kernels);
}

TEST(LlamaGraph, TensorsOfOneProductLieSideBySide) {
  ModelConfig c = default_model(Family::llama);
  c.width = 30, c.attention.heads = 5, c.layers = 1, c.mlp.inner_given = 7,
  c.attention.bias = c.mlp.bias = true;
  const Window w = build_model(c, Precision::fp32, batch)->windows[1];
  EXPECT_EQ(w.tensors.size(), 16u);
  for (u32 i = 1; i < w.tensors.size(); ++i) {
    const Tensor &before = w.tensors[i - 1], &t = w.tensors[i];
    const auto goes_on = [&](const char* part) { return t.name.find(part) != std::string::npos; };
    if (goes_on("k_proj") || goes_on("v_proj") || goes_on("up_proj"))
      EXPECT_EQ(t.window_offset, before.window_offset + before.elements) << t.name;
    else
      EXPECT_EQ(t.window_offset % 64, 0u) << t.name;
  }
}

TEST(LlamaGraph, KernelsOfALayerAreAsCountedOnPaper) {
  ModelConfig c = default_model(Family::qwen3);
  c.width = 64, c.attention.heads = 4, c.attention.kv_heads_given = 2, c.softmax.head_size_given = 32,
  c.mlp.inner_given = 96, c.layers = 1;
  const u64 rows = 256;
  const Block layer = build_model(c, Precision::fp32, batch)->blocks[1];
  u64 forward = 0, backward = 0;
  for (const KernelCost& k : layer.forward_kernels)
    if (k.m != 0) forward += k.product_flops;
  for (const KernelCost& k : layer.backward_kernels)
    if (k.m != 0) backward += k.product_flops;
  const u64 weights = 64 * (4 + 2 + 2) * 32 + 64 * 4 * 32 + 3 * 64 * 96;
  EXPECT_EQ(forward, 2 * rows * weights);
  EXPECT_EQ(backward, 4 * rows * weights);
}

TEST(LlamaGraph, PackedBatchesHaveAThirdArray) {
  ModelConfig c = default_model(Family::llama);
  c.width = 64, c.attention.heads = 4, c.layers = 1;
  const ModelGraph plain = build_model(c, Precision::fp32, {.sequences = 4, .tokens = 512}).value();
  const ModelGraph packed =
      build_model(c, Precision::fp32, {.sequences = 4, .tokens = 512, .packed = true}).value();
  EXPECT_EQ(plain.batch_bytes.value, 2u * 4 * 4 * 512);
  EXPECT_EQ(packed.batch_bytes.value, 3u * 4 * 4 * 512);
  EXPECT_FALSE(reads_batch(plain, plain.blocks[1]));
  EXPECT_TRUE(reads_batch(packed, packed.blocks[1]));
  EXPECT_THAT(refusal({}, {.tokens = 8, .packed = true}), testing::HasSubstr("cannot be packed"));
}

}  // namespace tidepool::graph_test
