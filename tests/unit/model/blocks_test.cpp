// Blocks as a whole: recompute, threads and accumulation change no bit; gradients are derivatives.
#include "tests/support/model_runner.h"

namespace tidepool::test::blocks_test {

constexpr BatchShape batch = {.sequences = 2, .tokens = 70};

ModelConfig small_config() {
  return {.vocab_size = 131,
          .positions = 80,
          .width = 36,
          .layers = 2,
          .attention = {.heads = 3, .dropout = 0.2},
          .embedding_dropout = 0.1,
          .residual_dropout = 0.1};
}

struct Batch {
  std::vector<i32> tokens, targets;

  explicit Batch(u32 seed, u32 vocabulary = 131) {
    std::mt19937 engine(seed);
    for (u64 i = 0; i < batch.rows(); ++i) {
      tokens.push_back(i32(engine() % vocabulary));
      targets.push_back(i % 9 == 4 ? ignored_target : i32(engine() % vocabulary));
    }
  }
};

struct Result {
  std::vector<float> gradients;
  double loss = 0;
};

Result run(const ModelConfig& config, Precision precision, u32 workers, RunOptions options,
           u32 micro_batches = 1) {
  const auto pool = make_pool(workers);
  ModelRunner model(build_model(config, precision, batch).value(), *pool);
  model.init(5, 5.0f);
  Result out;
  for (u32 m = 0; m < micro_batches; ++m) {
    const Batch data(m);
    out.loss += model.forward_backward(data.tokens.data(), data.targets.data(), 1.0 / 200, options, m);
  }
  out.gradients = model.all_gradients();
  return out;
}

TEST(Blocks, RecomputeAndThreadsChangeNoBit) {
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const Result want = run(small_config(), precision, 1, {.keep = true}, 2);
    ASSERT_TRUE(std::isfinite(want.loss));
    for (float g : want.gradients) ASSERT_TRUE(std::isfinite(g));  // padding included
    for (u32 workers : {1u, 2u, 3u}) {
      for (bool keep : {true, false}) {
        const Result got = run(small_config(), precision, workers, {.keep = keep}, 2);
        EXPECT_EQ(got.loss, want.loss) << workers << keep;
        EXPECT_TRUE(same_bits(got.gradients, want.gradients)) << workers << keep;
      }
    }
  }
}

TEST(Blocks, AccumulationIsAPlainSum) {
  const auto pool = make_pool(2);
  ModelRunner model(build_model(small_config(), Precision::fp32, batch).value(), *pool);
  model.init(5, 5.0f);
  const Batch a(0), b(1);
  model.forward_backward(a.tokens.data(), a.targets.data(), 0.01, {}, 0);
  const auto first = model.all_gradients();
  model.forward_backward(b.tokens.data(), b.targets.data(), 0.01, {}, 1);
  const auto both = model.all_gradients();
  // The second micro-batch alone: accumulate onto zeros.
  model.forward_backward(a.tokens.data(), a.targets.data(), 0.0, {}, 0);
  model.forward_backward(b.tokens.data(), b.targets.data(), 0.01, {}, 1);
  const auto second = model.all_gradients();
  for (u64 i = 0; i < both.size(); ++i) ASSERT_EQ(both[i], first[i] + second[i]) << i;
}

TEST(Blocks, DropoutDependsOnStepAndMicroBatch) {
  const Result one = run(small_config(), Precision::fp32, 2, {.step = 1});
  const Result two = run(small_config(), Precision::fp32, 2, {.step = 2});
  EXPECT_NE(one.loss, two.loss);
  EXPECT_EQ(run(small_config(), Precision::fp32, 2, {.training = false, .step = 1}).loss,
            run(small_config(), Precision::fp32, 2, {.training = false, .step = 2}).loss);
}

// Directional derivative of the loss, with dropout held fixed by its counter.
void expect_derivatives(const ModelConfig& config, const LoraConfig& lora = {}) {
  const auto pool = make_pool(2);
  ModelRunner model(build_model(config, Precision::fp32, batch, Precision::fp32, lora).value(), *pool);
  model.init(5, 5.0f);
  const Batch data(3);
  model.forward_backward(data.tokens.data(), data.targets.data(), 1.0);
  const auto gradients = model.gradients();
  const ModelRunner::Weights start = model.weights;
  u32 compared = 0;
  for (u32 w = 0; w < start.size(); ++w) {
    if (!model.graph().windows[w].trainable) continue;
    for (const Tensor& t : model.graph().windows[w].tensors) {
      // Along the gradient's signs, where the change of the loss is largest.
      const auto& g = gradients.at(t.name);
      double slope = 0;
      for (float x : g) slope += std::abs(double(x));
      if (slope < 1e-3) continue;
      const double step = std::min(2e-3, 0.5 / slope);
      const auto at = [&](double delta) {
        model.weights = start;
        for (u64 i = 0; i < t.elements; ++i) {
          model.weights[w][t.window_offset + i] += float(g[i] > 0 ? delta : g[i] < 0 ? -delta : 0);
        }
        model.upload();
        return model.loss(data.tokens.data(), data.targets.data());
      };
      const double measured = (at(step) - at(-step)) / (2 * step);
      EXPECT_NEAR(measured / slope, 1.0, 0.02) << t.name << " slope " << slope;
      ++compared;
    }
  }
  EXPECT_GT(compared, 10u);
}

ModelConfig small_llama() {
  ModelConfig c = default_model(Family::llama);
  c.vocab_size = 131, c.positions = 80, c.width = 36, c.layers = 2, c.attention.heads = 6;
  c.mlp.inner_given = 56, c.attention.kv_heads_given = 2, c.attention.dropout = 0.2;
  return c;
}

// All experts are chosen, so that no step changes the choice.
ModelConfig small_deepseek(u32 query_rank) {
  ModelConfig c = default_model(Family::deepseek_v3);
  c.vocab_size = 131, c.positions = 80, c.width = 36, c.layers = 2, c.attention.heads = 3,
  c.attention.kv_heads_given = 3;
  c.mlp.inner_given = 56, c.attention.dropout = 0.2, c.attention.bias = true;
  c.latent = {.q_lora_rank = query_rank,
              .kv_lora_rank = 14,
              .qk_nope_head_dim = 10,
              .qk_rope_head_dim = 6,
              .v_head_dim = 9};
  c.experts.count = 2, c.experts.chosen = 2, c.experts.inner_given = 20, c.experts.shared = 2;
  c.experts.dense_layers = 1;
  return c;
}

ModelConfig small_hybrid(Family family) {
  ModelConfig c = default_model(family);
  c.vocab_size = 131, c.positions = 80, c.width = 36, c.layers = 2, c.attention.heads = 3;
  c.attention.kv_heads_given = 1, c.softmax.head_size_given = 12, c.attention.rope.partial_factor = 0.5;
  c.mlp.inner_given = 56, c.attention.dropout = 0.2, c.attention.bias = true;
  c.delta = {
      .key_heads = 2, .value_heads = 4, .key_head_dim = 6, .value_head_dim = 10, .attention_interval = 2};
  if (c.experts.count != 0)
    c.experts.count = 2, c.experts.chosen = 2, c.experts.inner_given = 20, c.experts.shared_width = 44;
  return c;
}

// Caps far below many scores and logits.
ModelConfig small_gemma2() {
  ModelConfig c = default_model(Family::gemma2);
  c.vocab_size = 131, c.positions = 80, c.width = 36, c.layers = 2, c.attention.heads = 4;
  c.mlp.inner_given = 56, c.attention.kv_heads_given = 2, c.softmax.head_size_given = 10;
  c.attention.dropout = 0.2, c.softmax.scale_given = 3, c.softmax.sliding_window = 20;
  c.softmax.soft_cap = 1.5, c.final_soft_cap = 2;
  return c;
}

// Windows in the first two layers; in the last, larger heads, fewer of which are keys, which are values too.
ModelConfig small_gemma4() {
  ModelConfig c = default_model(Family::gemma4_text);
  c.vocab_size = 131, c.positions = 80, c.width = 36, c.layers = 3, c.attention.heads = 4;
  c.mlp.inner_given = 56, c.attention.kv_heads_given = 2;
  // Scores have the factor 1: with larger heads the loss would be far from linear in the weights.
  c.softmax.head_size_given = 4, c.softmax.global_head_size = 6, c.softmax.global_kv_heads = 1,
  c.softmax.keys_are_values = true;
  c.attention.rope.partial_factor = 0.5;
  c.attention.dropout = 0.2, c.softmax.sliding_window = 20, c.final_soft_cap = 2;
  // Few columns of inputs may all be small for a token, and their norm steep.
  c.layer_inputs = {.width = 37, .vocab_size_given = 133}, c.initializer_range = 0.1;
  return c;
}

// The last three layers read keys and values of the second and the third, and their MLPs are wider.
ModelConfig small_gemma4_with_shared_keys() {
  ModelConfig c = small_gemma4();
  c.layers = 6, c.softmax.sliding_window_pattern = 3, c.softmax.shared_layers = 3, c.mlp.double_wide = true;
  return c;
}

// Experts beside the dense MLP. All are chosen, so that no step changes the choice.
ModelConfig small_gemma4_with_experts() {
  ModelConfig c = small_gemma4_with_shared_keys();
  c.layers = 4, c.softmax.sliding_window_pattern = 2, c.softmax.shared_layers = 2;
  c.experts.count = 3, c.experts.chosen = 3, c.experts.inner_given = 20;
  return c;
}

ModelConfig small_arcee() {
  ModelConfig c = default_model(Family::arcee);
  c.vocab_size = 131, c.positions = 80, c.width = 36, c.layers = 2, c.attention.heads = 6;
  c.mlp.inner_given = 56, c.attention.kv_heads_given = 2, c.attention.dropout = 0.2, c.mlp.bias = true;
  return c;
}

// Layers with Mamba-2, attention, an MLP and experts; Granite 4's have an MLP each.
ModelConfig small_mamba(Family family) {
  ModelConfig c = default_model(family);
  c.vocab_size = 131, c.positions = 80, c.width = 36, c.layers = 4, c.attention.heads = 3;
  c.attention.kv_heads_given = 1, c.softmax.head_size_given = 12, c.attention.dropout = 0.2;
  c.mlp.inner_given = 56;
  c.mamba.heads = 6, c.mamba.head_dim = 12, c.mamba.groups = 2, c.mamba.state_size = 10;
  c.experts.count = 2, c.experts.chosen = 2, c.experts.shared_width = 44;
  if (!style(family).one_part) c.layer_kinds = "M*MM", c.factors.residual = 0.6;
  return c;
}

TEST(Blocks, RecomputeAndThreadsChangeNoBitOfLayersWithMamba) {
  for (const Family family : {Family::nemotron_h, Family::granitemoehybrid})
    for (Precision precision : {Precision::fp32, Precision::bf16}) {
      const Result want = run(small_mamba(family), precision, 1, {.keep = true}, 2);
      for (float g : want.gradients) ASSERT_TRUE(std::isfinite(g));
      for (u32 workers : {1u, 3u})
        for (bool keep : {true, false}) {
          const Result got = run(small_mamba(family), precision, workers, {.keep = keep}, 2);
          EXPECT_EQ(got.loss, want.loss) << name(family) << workers << keep;
          EXPECT_TRUE(same_bits(got.gradients, want.gradients)) << name(family) << workers << keep;
        }
    }
}

TEST(Blocks, GradientsAreDerivatives) {
  for (const ModelConfig& config :
       {small_config(), small_deepseek(0), small_deepseek(13), small_hybrid(Family::qwen3_5_text),
        small_hybrid(Family::qwen3_next), small_mamba(Family::nemotron_h),
        small_mamba(Family::granitemoehybrid), small_gemma2(), small_arcee(), small_gemma4(),
        small_gemma4_with_shared_keys(), small_gemma4_with_experts()}) {
    SCOPED_TRACE(name(config.family));
    expect_derivatives(config);
  }
}

TEST(Blocks, RecomputeChangesNoBitOfFamilies) {
  for (const ModelConfig& config : {small_gemma2(), small_arcee(), small_gemma4(),
                                    small_gemma4_with_shared_keys(), small_gemma4_with_experts()})
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      SCOPED_TRACE(name(config.family));
      const Result want = run(config, precision, 1, {.keep = true}, 2);
      const Result got = run(config, precision, 3, {.keep = false}, 2);
      EXPECT_EQ(got.loss, want.loss);
      EXPECT_TRUE(same_bits(got.gradients, want.gradients));
    }
}

TEST(Blocks, GradientsOfAdaptersAreDerivatives) {
  for (const ModelConfig& config :
       {small_config(), small_llama(), small_deepseek(0), small_deepseek(13),
        small_hybrid(Family::qwen3_5_moe_text), small_mamba(Family::nemotron_h),
        small_mamba(Family::granitemoehybrid), small_gemma2(), small_arcee(), small_gemma4(),
        small_gemma4_with_shared_keys(), small_gemma4_with_experts()}) {
    SCOPED_TRACE(name(config.family));
    expect_derivatives(config, {.r = 4, .dropout = 0.3});
  }
}

void expect_slices_agree(double cap) {
  // 8192 + 8: the second slice is small, and its logits are made twice.
  ModelConfig config = {
      .vocab_size = 8200, .positions = 80, .width = 24, .layers = 1, .attention = {.heads = 2}};
  config.final_soft_cap = cap;
  const auto pool = make_pool(2);
  ModelRunner model(build_model(config, Precision::fp32, batch).value(), *pool);
  model.init(5, 10.0f);
  const Batch data(3, 8200);
  const double loss = model.forward_backward(data.tokens.data(), data.targets.data(), 1.0);
  EXPECT_EQ(model.loss(data.tokens.data(), data.targets.data()), loss);
  double want = 0;
  for (u32 row = 0; row < batch.rows(); row += 1) {
    if (data.targets[row] == ignored_target) continue;
    if (row > 12) break;
    const auto logits = model.logits(data.tokens.data(), row);
    double sum = 0;
    for (float x : logits) sum += std::exp(double(x));
    want += std::log(sum) - double(logits[u32(data.targets[row])]);
  }
  Batch few = data;
  for (u32 row = 13; row < batch.rows(); ++row) few.targets[row] = ignored_target;
  EXPECT_NEAR(model.loss(few.tokens.data(), few.targets.data()), want, 1e-4);
  // The gradient of the tied head sums to zero over the vocabulary.
  const auto gradients = model.all_gradients();
  EXPECT_TRUE(std::isfinite(gradients.back()));
}

TEST(Blocks, VocabularySlicesAgreeWithOneAnother) { expect_slices_agree(0); }
TEST(Blocks, VocabularySlicesAgreeWithOneAnotherUnderACap) { expect_slices_agree(3); }

}  // namespace tidepool::test::blocks_test
